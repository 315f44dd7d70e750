import { abortable, createLifetime, isStreamsError } from 'sluice/core'
import { boxKeys, type HttpAnswer, networkReason, parseKey } from 'sluice/internal'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { type AttestationPolicy, checkEvidence } from '../attestation/evidence.js'
import { parseObject } from '../sealed-message.js'
import { openBootKey, VERSION, versionMismatch } from './protocol.js'

/**
 * A moment by a monotonic clock and by the wall clock. The wall clock also advances while the
 * machine sleeps.
 */
export interface Moment {
  readonly steady: number
  readonly wall: number
}

/** The boot key of one start of the enclave. */
export interface BootKey {
  readonly publicKey: Uint8Array
  /**
   * How long the enclave had been up, in milliseconds. The enclave read this time after the
   * question for its boot key, and before `answeredAt`.
   */
  readonly upFor: number
  readonly answeredAt: Moment
  /** When the last exchange began that this boot key has answered. */
  aliveAt: Moment
}

/** The enclave that is asked for its boot keys. */
export interface PinnedEnclave {
  /** The key that the caller has pinned. */
  readonly publicKey: Uint8Array
  readonly host: string
  /** The policy that the enclave's evidence is checked against. @default none is asked for */
  readonly policy?: AttestationPolicy | undefined
}

/** Asks for the boot key. `asker` is the public key that the answer is sealed to. */
export type PostAsker = (asker: Uint8Array, signal: AbortSignal) => Promise<HttpAnswer>

/** The error message if an enclave does not answer with its boot key in time. */
export const NOT_IN_TIME = 'did not answer in time when asked for its boot key: nothing was sent'
/** Milliseconds to wait for the boot key. */
const MAX_WAIT = 10_000

/**
 * Caches the boot key of one enclave. All concurrent callers share one question, which is cancelled
 * once none of them waits for it.
 */
export class BootKeys {
  readonly #enclave: PinnedEnclave
  readonly #post: PostAsker
  #cached: BootKey | undefined
  #asking: Promise<BootKey> | undefined
  #life = createLifetime()
  #waiting = 0

  constructor(enclave: PinnedEnclave, post: PostAsker) {
    this.#enclave = enclave
    this.#post = post
  }

  /**
   * Returns the boot key. Asks for it if no boot key is cached, or if the cached one is `stale`.
   * Rejects with EnclaveError.
   */
  async current(signal: AbortSignal, stale?: BootKey): Promise<BootKey> {
    if (this.#cached !== undefined && this.#cached !== stale) return this.#cached
    this.#asking ??= this.#start()
    this.#waiting++
    try {
      this.#cached = await abortable(this.#asking, signal)
      return this.#cached
    } finally {
      if (--this.#waiting === 0) {
        this.#life.end()
        this.#asking = undefined
      }
    }
  }

  #start(): Promise<BootKey> {
    this.#life = createLifetime()
    const { signal, end } = this.#life
    const timer = setTimeout(end, MAX_WAIT)
    const started = this.#ask(signal).finally(() => {
      clearTimeout(timer)
      if (this.#asking === started) this.#asking = undefined
    })
    return started
  }

  async #ask(signal: AbortSignal): Promise<BootKey> {
    const { publicKey: enclavePublicKey, host, policy } = this.#enclave
    const asker = boxKeys()
    const askedAt = moment()
    let answer: HttpAnswer
    try {
      answer = await abortable(this.#post(asker.publicKey, signal), signal)
    } catch (thrown) {
      throw failed(`the enclave at ${host} ${reasonOf(thrown, signal)}`)
    }
    const answeredAt = moment()
    if (answer.status === 404)
      throw failed(
        `the enclave at ${host} answered 404: it is not an enclave, or one of an older version`,
      )
    const why = versionMismatch(answer)
    if (why !== undefined) throw failed(`the enclave at ${host} ${why}`)
    if (answer.status !== 200)
      throw failed(`the enclave at ${host} answered ${answer.status} when asked for its boot key`)
    const json = openBootKey(answer.body, enclavePublicKey, asker)
    asker.secretKey.fill(0)
    if (json === undefined)
      throw failed(`the answer from ${host} is not of the enclave with the pinned key`)
    const { evidence, ...boot } = readBootKey(json, host)
    if (policy !== undefined) {
      const keys = { enclavePublicKey, bootKey: boot.publicKey, nonce: asker.publicKey }
      await abortable(checkEvidence(evidence, keys, policy, host), signal)
    }
    return { ...boot, answeredAt, aliveAt: askedAt }
  }
}

function failed(message: string): EnclaveError {
  return new EnclaveError(message, { mayHaveBeenSent: false })
}

function reasonOf(thrown: unknown, signal: AbortSignal): string {
  if (signal.aborted) return NOT_IN_TIME
  if (isStreamsError(thrown)) return `gave an invalid answer: ${thrown.message}`
  return `could not be reached: ${networkReason(thrown)}`
}

/** Reads the boot key that an enclave has sealed. */
export function readBootKey(
  json: string,
  host: string,
): Pick<BootKey, 'publicKey' | 'upFor'> & { readonly evidence: unknown } {
  const answer = parseObject(json)
  if (answer === undefined) throw failed(`the answer from ${host} is not JSON`)
  const { version, bootKey, upFor, evidence } = answer
  if (version !== VERSION)
    throw failed(`the enclave at ${host} speaks version ${String(version)}, not ${VERSION}`)
  if (typeof upFor !== 'number' || !(upFor >= 0))
    throw failed(`the enclave at ${host} does not say how long it has been up`)
  if (typeof bootKey !== 'string' || !/^[0-9a-f]{64}$/.test(bootKey))
    throw failed(`the boot key of the enclave at ${host} is not a key`)
  return { publicKey: parseKey('bootKey', bootKey), upFor, evidence }
}

/** The allowed drift between two clocks, as a fraction of the measured time. */
const MAX_DRIFT = 0.001

/**
 * Tells whether a request may have been carried out by an earlier start of the enclave. The request
 * was sealed to `before` and first sent at `sentAt`; now the enclave has the boot key `next`.
 * Returns the reason if the request may have been carried out. Returns undefined if that is
 * impossible, so that the request may be sent to `next`.
 *
 * The unsealed rejection of `before` proves nothing. The start of `next` does:
 *
 *     before answers · · before ends · next starts · · request is sent · · next answers
 *
 * Only one enclave at a time has an enclave key. So if `next` was up when the request was sent,
 * `before` was not, and nobody else can open the request. If `next` was already up when `before`
 * answered, two enclaves have the key at the same time. Then the start of `next` proves nothing.
 */
export function whyCarriedOut(before: BootKey, next: BootKey, sentAt: Moment): string | undefined {
  const wasUpAt = (time: Moment): boolean =>
    next.upFor * (1 - MAX_DRIFT) > elapsed(time, next.answeredAt)
  if (next.publicKey.every((byte, index) => byte === before.publicKey[index]))
    return 'rejected the request as sealed to another boot key, although it is sealed to its own'
  if (wasUpAt(before.aliveAt))
    return 'is one of several with the same key, and another was asked first: each needs a key of its own'
  return wasUpAt(sentAt) ? undefined : 'was started anew while it was asked'
}

/** The current moment. */
export function moment(): Moment {
  return { steady: performance.now(), wall: Date.now() }
}

/**
 * Milliseconds between two moments. The clocks differ if the machine slept or a clock was set.
 * Returns the greater difference.
 */
function elapsed(earlier: Moment, later: Moment): number {
  return Math.max(later.steady - earlier.steady, later.wall - earlier.wall)
}
