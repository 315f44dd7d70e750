/** A budget that refills at a steady rate. It may be overspent: then it takes the longer until there is something in it. */
export interface TokenBucket {
  /** Milliseconds until there is so much in it; 0 if there is. */
  msUntil(amount: number): number
  spend(amount: number): void
  /** Whether nothing of it is spent. */
  isFull(): boolean
}

/** A full one. */
export function createTokenBucket(
  perSecond: number,
  capacity: number,
  now: () => number = () => performance.now(),
): TokenBucket {
  let balance = capacity
  let updatedAt = now()

  function refill(): number {
    const time = now()
    balance = Math.min(capacity, balance + ((time - updatedAt) / 1000) * perSecond)
    updatedAt = time
    return balance
  }
  return {
    // Less than a millisecond would be a timer that comes too early.
    msUntil: amount => Math.max(0, Math.ceil(((amount - refill()) / perSecond) * 1000)),
    spend(amount) {
      refill()
      balance -= amount
    },
    isFull: () => refill() >= capacity,
  }
}
