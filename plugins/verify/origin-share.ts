/** The share that one origin has of the lookups of signers, and of the reports that wait for them. */
export interface OriginShare {
  /** Admits a report that waits, for a new lookup if it needs one; or returns the limit that is reached. */
  enter(needsLookup: boolean): string | undefined
  /** Called when a report no longer waits. */
  leave(): void
  /** Called when a lookup has ended. */
  lookupEnded(): void
}

interface Limits {
  readonly owner: string
  /** At a time. */
  readonly lookups: number
  /** Lookups in a row, after which there is one a second. */
  readonly burst: number
  readonly waiting: number
}

// Anyone can send reports of invented configurations: one origin must not use up the lookups of the others.
const OF_ORIGIN: Limits = { owner: 'its origin', lookups: 4, burst: 8, waiting: 4096 }
/** `verifyReport` knows no origin; how often it is called is the caller's choice. */
const OF_CALLERS: Limits = {
  owner: 'all callers',
  lookups: 8,
  burst: Number.POSITIVE_INFINITY,
  waiting: 16_384,
}
/** Origins with a share of their own; all others have one together. */
const MAX_ORIGINS = 64

/** Gives each origin its share, and one to all callers that name no origin. */
export function createOriginShares(): (origin: string | undefined) => OriginShare {
  const callers = createShare(OF_CALLERS)
  const others = createShare(OF_ORIGIN)
  const shares = new Map<string, OriginShare>()
  return function shareOf(origin) {
    if (origin === undefined) return callers
    const known = shares.get(origin)
    if (known !== undefined) return known
    if (shares.size === MAX_ORIGINS) return others
    const share = createShare(OF_ORIGIN)
    shares.set(origin, share)
    return share
  }
}

function createShare(limits: Limits): OriginShare {
  const { owner, burst } = limits
  let lookups = 0
  let waiting = 0
  let credit = burst
  let creditedAt = performance.now()

  function hasCredit(): boolean {
    const now = performance.now()
    credit = Math.min(burst, credit + (now - creditedAt) / 1000)
    creditedAt = now
    return credit >= 1
  }

  return {
    enter(needsLookup) {
      if (waiting === limits.waiting)
        return `${waiting} reports of ${owner} wait for theirs, which is the maximum`
      if (needsLookup) {
        if (lookups === limits.lookups)
          return `${lookups} configurations of ${owner} are being looked up, which is the maximum`
        if (!hasCredit())
          return `${owner} causes too many lookups, which are limited to one a second`
        credit--
        lookups++
      }
      waiting++
      return undefined
    },
    leave() {
      waiting--
    },
    lookupEnded() {
      lookups--
    },
  }
}
