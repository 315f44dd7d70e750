// What was published, held against what was delivered, for as long as it takes: only what is open is kept.
import { createHash } from 'node:crypto'

const digestOf = fullReport => createHash('md5').update(fullReport).digest('base64')

/** For how long a report that has come is remembered, in case it comes again; in ms. */
const MEMORY = 15 * 60_000

/** An account of the reports of an engine, from now on; `reorderTimeout` is the time in ms that one may wait for those before it. */
export function openTally(engine, reorderTimeout) {
  /** Published and not delivered yet, by feed and time: since when, and the digest. */
  const missing = new Map()
  /** Delivered, by feed and time: until the ledger has been read, with the digest of what came. */
  const delivered = new Map()
  const gaps = []
  const counts = {
    ...{ published: 0, delivered: 0, backfilled: 0, doubled: 0, foreign: 0, altered: 0 },
    /** Out of order: within `reorderTimeout` of their publication, and later. */
    ...{ disordered: 0, late: 0 },
  }
  /** The newest time that was delivered of each feed. */
  const newest = new Map()
  let read = engine.ledger().at(-1)
  let pruned = Date.now()

  const keyOf = (feedID, time) => `${feedID}:${time}`

  function settle(entry, digest) {
    if (entry.digest !== digest) counts.altered++
    entry.isKnown = true
  }

  /** Reads what has been published since the last time. */
  function update() {
    const ledger = engine.ledger()
    let from = ledger.length
    while (from > 0 && ledger[from - 1] !== read) from--
    for (const { feedID, observationsTimestamp, fullReport, publishedAt } of ledger.slice(from)) {
      counts.published++
      const key = keyOf(feedID, observationsTimestamp)
      const early = delivered.get(key)
      if (early === undefined)
        missing.set(key, {
          ...{ feedID, time: observationsTimestamp, publishedAt },
          digest: digestOf(fullReport),
        })
      else settle(early, digestOf(fullReport))
    }
    read = ledger.at(-1) ?? read
    if (Date.now() - pruned > MEMORY / 15) prune()
  }

  /** What was delivered long ago and never published is nobody's. */
  function prune() {
    pruned = Date.now()
    for (const [key, { at, isKnown }] of delivered) {
      if (pruned - at < MEMORY) break
      if (!isKnown) counts.foreign++
      delivered.delete(key)
    }
  }

  function deliver([feedID, time, digest, source]) {
    const key = keyOf(feedID, time)
    if (delivered.has(key)) {
      counts.doubled++
      return
    }
    counts.delivered++
    if (source === 'backfill') counts.backfilled++
    const entry = { at: Date.now(), digest, isKnown: false }
    delivered.set(key, entry)
    const published = missing.get(key)
    if (time > (newest.get(feedID) ?? 0)) newest.set(feedID, time)
    else if (Date.now() - (published?.publishedAt ?? Date.now()) < reorderTimeout)
      counts.disordered++
    else counts.late++
    if (published === undefined) return
    missing.delete(key)
    settle(entry, published.digest)
  }

  const isInGap = ({ feedID, time }) =>
    gaps.some(gap => gap.feedID === feedID && gap.from <= time && time <= gap.to)

  return {
    counts,
    gaps,
    update,
    deliver,
    /** How many reports are neither delivered nor announced as missing. */
    lost() {
      update()
      let lost = 0
      for (const entry of missing.values()) if (!isInGap(entry)) lost++
      return lost
    },
    /** How many were announced as missing. */
    announced: () => [...missing.values()].filter(isInGap).length,
    /** How many were delivered that nobody has published. */
    foreign: () =>
      counts.foreign + [...delivered.values()].filter(({ isKnown }) => !isKnown).length,
  }
}
