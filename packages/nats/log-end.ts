import type { CursorStore } from 'sluice/stores'
import { readFrame } from './frame.js'
import { accessLog, type ReportLog, streamError } from './log.js'
import { subjectOf } from './subjects.js'

/** Feeds that are looked for at a time. */
const AT_A_TIME = 32

/**
 * Cursors of a relay: where the store has none of a feed, that is where the log ends.
 */
export function cursorsFromLog(
  log: ReportLog,
  feedIDs: readonly string[],
  store: CursorStore,
): CursorStore {
  return {
    ...(store.lock && { lock: store.lock.bind(store) }),
    async load() {
      const saved = await store.load()
      const others = feedIDs.filter(feedID => saved[feedID] === undefined)
      return { ...saved, ...(await findEnds(log, others)) }
    },
    save: cursors => store.save(cursors),
  }
}

async function findEnds(
  log: ReportLog,
  feedIDs: readonly string[],
): Promise<Readonly<Record<string, number>>> {
  const ends: Record<string, number> = {}
  for (let at = 0; at < feedIDs.length; at += AT_A_TIME) {
    const some = feedIDs.slice(at, at + AT_A_TIME)
    const times = await Promise.all(some.map(feedID => findEnd(log, feedID)))
    for (const [index, time] of times.entries())
      if (time !== undefined) ends[some[index] as string] = time
  }
  return ends
}

/** The time of the report of a feed that was stored last. */
async function findEnd(log: ReportLog, feedID: string): Promise<number | undefined> {
  const { manager } = await accessLog(log.connection)
  try {
    const last = await manager.streams.getMessage(log.stream, {
      last_by_subj: subjectOf(log.prefix, feedID),
    })
    return last === null ? undefined : readFrame(last.data, feedID)?.observationsTimestamp
  } catch (thrown) {
    throw streamError(log.stream, thrown)
  }
}
