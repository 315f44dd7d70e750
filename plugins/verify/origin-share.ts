// What is asked for comes from the network: whoever makes up much of it is to leave the others their part.

/** What an origin may have of the asks, and of the reports that wait for their answers. */
export interface OriginShare {
  /** Takes a place for a report, and an ask if it needs a new one; or says which limit is reached. */
  take(needsAsk: boolean): string | undefined
  /** A report waits no more. */
  leave(): void
  /** An ask is over. */
  answered(): void
}

interface Limits {
  readonly whose: string
  /** At a time. */
  readonly asks: number
  /** Asks in a row, before it is one a second. */
  readonly burst: number
  readonly waiting: number
}

const OF_ORIGIN: Limits = { whose: 'its origin', asks: 4, burst: 8, waiting: 4096 }
/** Who verifies a report by itself knows no origin, and says how often. */
const OF_CALLERS: Limits = {
  whose: 'all callers',
  asks: 8,
  burst: Number.POSITIVE_INFINITY,
  waiting: 16_384,
}
/** Origins that have a share of their own; others have one together. */
const MAX_ORIGINS = 64

/** Gives each origin its share, and one to those who name none. */
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

function createShare({ whose, asks: most, burst, waiting: room }: Limits): OriginShare {
  let asks = 0
  let waiting = 0
  let credit = burst
  let at = performance.now()

  function hasCredit(): boolean {
    const now = performance.now()
    credit = Math.min(burst, credit + (now - at) / 1000)
    at = now
    return credit >= 1
  }

  return {
    take(needsAsk) {
      if (waiting === room) return `${room} reports of ${whose} wait for theirs, which is the most`
      if (needsAsk) {
        if (asks === most)
          return `those of ${most} configurations are asked for by ${whose}, which is the most`
        if (!hasCredit()) return `${whose} has asked too often, which is limited to once a second`
        credit--
        asks++
      }
      waiting++
      return undefined
    },
    leave() {
      waiting--
    },
    answered() {
      asks--
    },
  }
}
