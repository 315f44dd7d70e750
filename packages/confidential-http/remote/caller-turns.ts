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
const PER_SECOND = 700
/** How many milliseconds of processor time a caller may use at once after a quiet time. */
const BURST = 50
/** A caller shares if it has used more milliseconds than this lately. */
const USED = 10
/** The most milliseconds of processor time of an event: a message, or a request's start or end. */
const EVENT_COST = 3
/** How many of a caller's requests may wait for their turn. */
const MAX_WAITING = 16
/** Milliseconds between two requests that had to wait. */
const STEP = 5
/** Milliseconds after which what a caller has used counts half. */
const HALF_LIFE = 1000
/** For how many milliseconds after its last request a caller counts as one of the others. */
const PRESENT = 60_000

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
 * Nothing measures whose work an event loop does. Most of it is the work of events, so these are
 * charged first, each alike and up to a limit. The rest is charged to the requests that are open.
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

  /** `load` returns how many milliseconds the enclave's event loops have worked so far. */
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
    return hasPlace && (account.left > 0 || this.#isAlone(account))
  }

  #isAlone(account: Account): boolean {
    for (const other of this.#accounts.values())
      if (other !== account && this.#settledAt - other.seenAt < PRESENT) return false
    return true
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
    let open = 0
    let sharing = 0
    for (const account of this.#accounts.values()) {
      events += account.events
      open += openOf(account)
      if (account.used > USED || account.waiting.size > 0) sharing++
    }
    // There is room for one more, who starts at once.
    this.#share = PER_SECOND / Math.max(2, sharing)
    const ofEvent = events === 0 ? 0 : Math.min(EVENT_COST, worked / events)
    const ofRequest = open === 0 ? 0 : (worked - events * ofEvent) / open
    this.#strange = 0
    for (const [caller, account] of this.#accounts) {
      const cost = account.events * ofEvent + openOf(account) * ofRequest
      account.events = 0
      account.used = account.used * 2 ** (-passed / HALF_LIFE) + cost
      const paid = (passed / 1000) * this.#share
      account.left = Math.max(-MAX_DEBT, Math.min(BURST, account.left + paid - cost))
      if (openOf(account) === 0 && now - account.seenAt > PRESENT) this.#accounts.delete(caller)
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

/** How many requests of a caller are not answered yet. */
function openOf({ running, waiting, held }: Account): number {
  return running + waiting.size + held
}

function tooMuch(retryAfter: number): EnclaveError {
  return new EnclaveError(
    `this caller uses more than its part of the enclave: ask again in ${retryAfter} ms`,
    { code: 'RATE_LIMIT', mayHaveBeenSent: false, isRetryable: true, retryAfter },
  )
}
