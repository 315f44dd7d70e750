import { onAbort, sleep } from 'sluice/core'
import { EnclaveError } from 'sluice/plugins/confidential-http'

/** How many requests of all callers run at once, beyond the places that each caller has. */
const SHARED_PLACES = 256
/** How many requests of a caller always have a place. */
const OWN_PLACES = 8
/**
 * How many milliseconds of processor time a second the callers share equally, if there are several.
 * The two event loops of an enclave have 2000. The rest keeps the waiting short.
 */
const PER_SECOND = 500
/** How many milliseconds of processor time a caller may use at once after a quiet time. */
const BURST = 50
/** A caller counts as one of those who share if it has lately used more milliseconds than this. */
const USED = 10
/** How many of a caller's requests may wait for their turn. */
const MAX_WAITING = 16
/** Milliseconds between two requests that had to wait. */
const STEP = 5
/** Milliseconds after which what a caller has used counts half. */
const HALF_LIFE = 1000
/** For how many milliseconds after its last request a caller counts as one of the others. */
const PRESENT = 10_000

/**
 * For how many milliseconds a refusal is held back at most. A caller that asks again at once after
 * each refusal would cost the others as much as its requests.
 */
const MAX_HOLD = 1000
/** How many refusals of a caller are held back at a time. */
const MAX_HELD = 64
/** The most milliseconds of processor time that a caller owes. */
const MAX_DEBT = 2000

interface Account {
  running: number
  /** How many messages came, and how many requests started or ended, since the last charge. */
  events: number
  /** How many refusals are held back. */
  held: number
  /** Milliseconds of processor time that the caller has used lately. */
  used: number
  /** Milliseconds of processor time that the caller may use now. Below zero if it used too much. */
  left: number
  /** When the last request came, in milliseconds of `performance.now`. */
  seenAt: number
  readonly waiting: Set<() => void>
}

/**
 * The turns of callers who don't trust each other. A caller that is alone may use the whole
 * enclave. Once there are others, each has an equal share of the processor. Requests of a caller
 * that uses more wait for their turn. A request of another caller starts at once.
 *
 * The enclave's thread measures whose work it does. The thread that listens does not: its work is
 * divided by the events of each caller, which are its messages, and the starts and ends of its
 * requests.
 */
export class CallerTurns {
  readonly #load: () => number
  readonly #now: () => number
  readonly #accounts = new Map<string, Account>()
  #running = 0
  /** How many messages of strangers came since the last charge. Nobody pays for them. */
  #strange = 0
  /** How many milliseconds of processor time a second each caller has. */
  #share = PER_SECOND
  #loadBefore: number
  #settledAt: number
  #timer: ReturnType<typeof setTimeout> | undefined

  /** `load` returns how many milliseconds the event loop that listens has worked so far. */
  constructor(load: () => number, now: () => number = () => performance.now()) {
    this.#load = load
    this.#now = now
    this.#loadBefore = load()
    this.#settledAt = now()
  }

  /**
   * Resolves when a request of a caller may start. The result is a function to call when it has
   * ended. Rejects with EnclaveError (`RATE_LIMIT`) if too many wait.
   */
  enter(caller: string, signal: AbortSignal): Promise<() => void> {
    this.#settle()
    const account = this.#accountOf(caller)
    account.seenAt = this.#settledAt
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason)
      const start = (): void => {
        forget()
        account.running++
        account.events++
        this.#running++
        resolve(() => this.#leave(account))
      }
      const forget = onAbort(signal, () => {
        account.waiting.delete(start)
        reject(signal.reason)
      })
      if (account.waiting.size === 0 && this.#mayStart(account)) start()
      else if (account.waiting.size < MAX_WAITING) {
        account.waiting.add(start)
        this.#timer ??= setTimeout(() => this.#serve(), STEP)
      } else {
        forget()
        reject(tooMuch(Math.max(1000, Math.ceil((-account.left * 1000) / this.#share))))
      }
    })
  }

  #leave(account: Account): void {
    this.#settle()
    account.running--
    account.events++
    this.#running--
  }

  /** Charges a caller for work that was measured. */
  charge(caller: string, ms: number): void {
    this.#settle()
    const account = this.#accountOf(caller)
    account.used += ms
    account.left = Math.max(-MAX_DEBT, account.left - ms)
  }

  /** Counts a message, of a caller or of a stranger, that costs work before it is a request. */
  note(caller?: string): void {
    this.#settle()
    if (caller === undefined) this.#strange++
    else this.#accountOf(caller).events++
  }

  /**
   * Counts a refused request of a caller, and waits for a part of the time after which the caller
   * may ask again. Resolves with false if the refusal should not even be sealed.
   */
  async holdRefusal(caller: string, retryAfter: number, signal: AbortSignal): Promise<boolean> {
    this.#settle()
    const account = this.#accountOf(caller)
    account.events++
    if (account.held >= MAX_HELD) return false
    account.held++
    await sleep(Math.min(retryAfter, MAX_HOLD), signal).finally(() => account.held--)
    return true
  }

  /** Starts a request that waits, of the caller that has used least. */
  #serve(): void {
    this.#settle()
    const waiting = [...this.#accounts.values()].filter(account => account.waiting.size > 0)
    waiting.sort((one, other) => one.used - other.used)
    const next = waiting.find(account => this.#mayStart(account))
    const [start] = next?.waiting ?? []
    if (start !== undefined) {
      next?.waiting.delete(start)
      start()
    }
    const isDone = waiting.every(account => account.waiting.size === 0)
    this.#timer = isDone ? undefined : setTimeout(() => this.#serve(), STEP)
  }

  #mayStart(account: Account): boolean {
    const hasPlace = account.running < OWN_PLACES || this.#running < SHARED_PLACES
    return hasPlace && (account.left > 0 || this.#isLightest(account))
  }

  /**
   * True for a caller that is alone, and for the one of several that has used least. So nobody is
   * slowed by a caller that uses more, however long a busy machine takes for its requests.
   */
  #isLightest(account: Account): boolean {
    let isAlone = true
    let isLeast = true
    let isOneOfSeveral = false
    for (const other of this.#accounts.values()) {
      if (other === account) continue
      if (this.#settledAt - other.seenAt < PRESENT) isAlone = false
      if (!isSharing(other)) continue
      isOneOfSeveral = true
      if (other.used <= account.used) isLeast = false
    }
    return isAlone || (isOneOfSeveral && isLeast)
  }

  /** Charges the callers for the time since the last call. */
  #settle(): void {
    const now = this.#now()
    const passed = now - this.#settledAt
    if (passed < 1) return
    const load = this.#load()
    const worked = Math.max(0, load - this.#loadBefore)
    this.#loadBefore = load
    this.#settledAt = now
    let events = this.#strange
    let sharing = 0
    for (const account of this.#accounts.values()) {
      events += account.events
      if (isSharing(account)) sharing++
    }
    this.#share = PER_SECOND / Math.max(1, sharing)
    const each = events === 0 ? 0 : worked / events
    this.#strange = 0
    for (const [caller, account] of this.#accounts) {
      const cost = account.events * each
      account.events = 0
      account.used = account.used * 2 ** (-passed / HALF_LIFE) + cost
      const paid = (passed / 1000) * this.#share
      account.left = Math.max(-MAX_DEBT, Math.min(BURST, account.left + paid - cost))
      const isQuiet = account.running + account.waiting.size + account.held === 0
      if (isQuiet && now - account.seenAt > PRESENT) this.#accounts.delete(caller)
    }
  }

  #accountOf(caller: string): Account {
    const account = this.#accounts.get(caller) ?? {
      ...{ running: 0, events: 0, held: 0, used: 0, left: BURST, seenAt: this.#settledAt },
      waiting: new Set(),
    }
    this.#accounts.set(caller, account)
    return account
  }
}

function isSharing({ used, waiting }: Account): boolean {
  return used > USED || waiting.size > 0
}

function tooMuch(retryAfter: number): EnclaveError {
  return new EnclaveError(
    `this caller uses more than its part of the enclave: ask again in ${retryAfter} ms`,
    { code: 'RATE_LIMIT', mayHaveBeenSent: false, isRetryable: true, retryAfter },
  )
}
