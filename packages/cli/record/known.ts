import { join } from 'node:path'
import { complete } from '../gaps/recorded.js'
import { readReports } from '../input/reports.js'
import type { IO } from '../io.js'
import { listRecorded } from './files.js'

/** What the files of a recording hold of the time behind its cursors: such reports come again. */
export interface Known {
  /** Reports that must not be written again. */
  readonly keys: Set<string>
  /** The cursors; of a feed that has none yet, its earliest report. */
  readonly cursors: Readonly<Record<string, number>>
}

interface Keyed {
  readonly feedID: string
  readonly observationsTimestamp: number
}

/** Tells a report from all others of a recording. */
export function keyOf({ feedID, observationsTimestamp }: Keyed): string {
  return `${feedID}:${observationsTimestamp}`
}

/** Reads the files from the newest back to one that holds nothing behind the cursors. */
export async function readKnown(
  directory: string,
  cursors: Readonly<Record<string, number>>,
  io: IO,
): Promise<Known> {
  const keys = new Set<string>()
  const earliest: Record<string, number> = {}
  for (const name of [...(await listRecorded(directory))].reverse()) {
    const before = keys.size
    for await (const given of readReports(join(directory, name), io, { mayBeEmpty: true })) {
      const report = await complete(given)
      const { feedID, observationsTimestamp: time } = report
      if (time <= (cursors[feedID] ?? Number.NEGATIVE_INFINITY)) continue
      keys.add(keyOf(report))
      if (cursors[feedID] === undefined) earliest[feedID] = Math.min(time, earliest[feedID] ?? time)
    }
    if (keys.size === before) break
  }
  return { keys, cursors: { ...earliest, ...cursors } }
}
