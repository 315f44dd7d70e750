import { performance } from 'node:perf_hooks'
import type { Log } from 'sluice/core'
import { Admission, type Asker, formatKey, isPublicKey } from 'sluice/internal'
import { type Attestor, type Evidence, presentEvidence } from '../attestation/evidence.js'
import type { Enclave } from '../enclave/enclave.js'
import { describeSent, type Failure, forRemote, toFailure } from '../outcome.js'
import { toJSON } from '../sealed-message.js'
import type { HTTPResponse } from '../types.js'
import { CallerTurns } from './caller-turns.js'
import { type CallerGuard, type Callers, type Refusals, ReplayGuard } from './callers.js'
import { type CurveKeys, CurveThreads } from './curve-threads.js'
import type { EnclaveHealth } from './enclave-health.js'
import {
  isFor,
  MIN_SEALED_BYTES,
  overloaded,
  Rejection,
  readEnvelope,
  VERSION,
} from './protocol.js'

/** The connection that a message arrived on. */
export interface Sender extends Asker {
  /** Notes that the connection has brought an authentic request of this caller. */
  prove(caller: string): void
  /** Notes that the connection is that of a stranger again. */
  disown(): void
}

/** The answer to a caller. */
export interface SealedAnswer {
  readonly status: number
  readonly body: Uint8Array
  /** Milliseconds after which the caller may ask again. */
  readonly retryAfter?: number | undefined
  /** True if the connection is to be closed after this answer. */
  readonly isLast?: boolean
  /** To be called once the answer was written, or can't be written any more. */
  sent?(): void
}

/** Options of `Answering`. */
export interface AnsweringOptions {
  readonly enclave: Enclave
  readonly keys: CurveKeys
  readonly callers: Callers
  readonly limits: CallerGuard
  /** Makes evidence for each question for the boot key. */
  readonly attestor?: Attestor | undefined
  /** Records the requests that are refused before they reach the enclave. */
  readonly refusals?: Refusals | undefined
  /** Counts the answers. */
  readonly watched?: EnclaveHealth | undefined
  readonly log: Log
}

/** The most evidence that is made at the same time. Hardware may take long for it. */
const MAX_ATTESTING = 2

/** Answers the callers of an enclave, from a start of the enclave until it is closed. */
export class Answering {
  readonly #options: AnsweringOptions
  readonly #startedAt = performance.now()
  readonly #bootKey: string
  readonly #threads: CurveThreads
  readonly #replays = new ReplayGuard()
  readonly #turns = new CallerTurns(() => performance.eventLoopUtilization().active)
  readonly #attesting = new Admission(MAX_ATTESTING, overloaded)
  readonly #running = new Set<Promise<unknown>>()

  constructor(options: AnsweringOptions) {
    this.#options = options
    this.#bootKey = formatKey(options.keys.boot.publicKey)
    this.#threads = new CurveThreads(options.keys)
  }

  /** Charges a caller for work of the enclave's thread. */
  charge(caller: string, ms: number): void {
    this.#turns.charge(caller, ms)
  }

  /** How many requests are being carried out. */
  get running(): number {
    return this.#running.size
  }

  /**
   * Answers a caller that asks for the boot key. Rejects with Rejection if a sealed answer is
   * impossible.
   */
  async bootKey(asker: Uint8Array, sender: Sender): Promise<SealedAnswer> {
    this.#turns.note(sender.caller())
    if (!isPublicKey(asker)) throw new Rejection(400, 'the body is not a public key')
    const evidence = await this.#makeEvidence(asker, sender)
    const body = await this.#threads.run(() => {
      const upFor = performance.now() - this.#startedAt
      const json = toJSON({ version: VERSION, bootKey: this.#bootKey, upFor, evidence })
      return { type: 'seal-boot-key', json, asker: new Uint8Array(asker) }
    }, sender)
    return { status: 200, body }
  }

  /**
   * Carries a request out. If the request could be opened, the answer is sealed to its caller, even
   * after a failure. Otherwise rejects with Rejection.
   */
  async request(sealed: Uint8Array, sender: Sender): Promise<SealedAnswer> {
    const arrivedAt = Date.now()
    const { keys, callers, limits, enclave, watched } = this.#options
    this.#turns.note(sender.caller())
    if (!isFor(sealed, keys.boot))
      throw new Rejection(410, 'the request is not sealed to the boot key of this enclave')
    if (sealed.byteLength < MIN_SEALED_BYTES) throw new Rejection(400, 'the request is too short')
    const opened = await this.#threads.run(
      () => ({ type: 'open-request', sealed: new Uint8Array(sealed) }),
      sender,
    )
    if (opened === undefined) throw new Rejection(400, 'the request does not open')
    const envelope = readEnvelope(opened.json, formatKey(keys.enclave.publicKey))
    const { id, issuedAt, replyTo, request } = envelope
    const name = formatKey(opened.caller)
    const owner = callers.ownerOf(name)
    // It may be that of a caller which was removed.
    if (owner === undefined) sender.disown()
    let leave: ((bytes: number) => void) | undefined
    let end: (() => void) | undefined
    let isAuthentic = false
    let status = 200
    let outcome: { readonly response: HTTPResponse } | { readonly failure: Failure }
    try {
      if (owner === undefined)
        throw new Rejection(403, 'the enclave does not know this caller', false)
      // Checked before the caller's limits. So a request that the limits refuse is never carried
      // out later. An attacker who replays recorded requests does not use up the limits.
      this.#replays.check(name, id, issuedAt)
      sender.prove(name)
      isAuthentic = true
      leave = limits.enter(name, sealed.byteLength)
      end = await this.#turns.enter(name, sender.signal)
      // If the caller's clock is ahead, the time counts from the arrival.
      const startedAt = Math.min(arrivedAt, issuedAt)
      const running = enclave.send(request, { name, owner, startedAt, signal: sender.signal })
      this.#running.add(running)
      outcome = { response: await running.finally(() => this.#running.delete(running)) }
    } catch (thrown) {
      const failure = thrown instanceof Rejection ? ofRejection(thrown) : toFailure(thrown)
      if (thrown instanceof Rejection) status = thrown.status
      else if (failure.code === 'RATE_LIMIT') status = 429
      this.#noteFailure(failure, status, isAuthentic ? name : undefined)
      outcome = { failure: forRemote(failure) }
    } finally {
      end?.()
    }
    watched?.answered('failure' in outcome ? outcome.failure.code : 'ok')
    const json = toJSON({ id, ...outcome })
    // Until it was written, an answer counts as a request that is running.
    const sent = (): void => leave?.(Buffer.byteLength(json))
    let body: Uint8Array
    try {
      // Who was refused at once must not come again at once.
      if ('failure' in outcome && status !== 200 && owner !== undefined)
        await this.#holdRefusal(name, status, outcome.failure, sender)
      body = await this.#threads.run(() => ({ type: 'seal-answer', json, replyTo }), sender)
    } catch (thrown) {
      sent()
      throw thrown
    }
    return {
      status,
      body,
      sent,
      isLast: owner === undefined,
      retryAfter: 'failure' in outcome ? outcome.failure.retryAfter : undefined,
    }
  }

  async #holdRefusal(
    caller: string,
    status: number,
    { retryAfter = 100 }: Failure,
    { signal }: Sender,
  ): Promise<void> {
    if (await this.#turns.holdRefusal(caller, retryAfter, signal)) return
    throw new Rejection(status, 'this caller does not wait after its refusals')
  }

  /** Waits until no request is running, and zeroes the boot key. */
  async close(): Promise<void> {
    await Promise.allSettled(this.#running)
    await this.#threads.close()
    this.#options.keys.boot.secretKey.fill(0)
  }

  /**
   * Logs a rejection. Records a refused request of a known caller, unless the enclave's own plugins
   * have recorded it.
   */
  #noteFailure({ code, message }: Failure, status: number, caller: string | undefined): void {
    const { refusals, watched, log } = this.#options
    const isRecorded = status === 200 && code !== 'VALIDATION'
    if (caller !== undefined && !isRecorded) refusals?.add(caller, code)
    if (status === 200) return
    watched?.rejected(status)
    log.warn?.(`rejected with ${status}: ${message}`, { status })
  }

  /** Makes evidence for a question, a few at a time. */
  async #makeEvidence(nonce: Uint8Array, sender: Sender): Promise<Evidence | undefined> {
    const { attestor, keys } = this.#options
    if (attestor === undefined) return undefined
    const leave = await this.#attesting.enter(sender)
    try {
      const bootKey = keys.boot.publicKey
      const enclavePublicKey = keys.enclave.publicKey
      return await presentEvidence(attestor, { enclavePublicKey, bootKey, nonce })
    } finally {
      leave()
    }
  }
}

function ofRejection({ message, mayHaveBeenSent }: Rejection): Failure {
  return { code: 'ENCLAVE', message: describeSent(message, mayHaveBeenSent), mayHaveBeenSent }
}
