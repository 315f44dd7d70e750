import type { Log } from '../../core/log.js'
import { formatKey } from '../../crypto/hex-key.js'
import { type BoxKeys, isPublicKey } from '../../crypto/sealed-box.js'
import type { Enclave } from '../enclave/enclave.js'
import { describeSent } from '../sent.js'
import { type Failure, toFailure } from '../thread/failure.js'
import { createTickQueue } from '../thread/tick-queue.js'
import type { HTTPResponse } from '../types.js'
import { type Envelope, readEnvelope } from './envelope.js'
import { Rejection } from './rejection.js'
import { createReplayGuard } from './replay-guard.js'
import { isFor, openRequest, sealAnswer, sealBootKey, toJSON, VERSION } from './sealing.js'

/** The connection that a message came on. */
export interface Sender {
  /** Whether this connection has brought an authentic request before. */
  isProven(): boolean
  /** Marks the connection as one that has. */
  prove(): void
  /** Aborts when the connection is closed. */
  readonly signal: AbortSignal
}

/** The answer to a caller. */
export interface SealedAnswer {
  readonly status: number
  readonly body: Uint8Array
}

/** Answers the callers of an enclave. Both methods reject with Rejection if no sealed answer is possible. */
export interface Answering {
  /** Answers a caller that asks for the boot key. */
  bootKey(asker: Uint8Array, sender: Sender): Promise<SealedAnswer>
  /** Carries a request out. If the request could be opened, the answer is sealed to its caller, also after a failure. */
  request(sealed: Uint8Array, sender: Sender): Promise<SealedAnswer>
  /** Zeroes the boot key. */
  close(): void
}

/** Options of `createAnswering`. */
export interface AnsweringOptions {
  readonly enclave: Enclave
  readonly keys: BoxKeys
  /** The boot key, made at each start. */
  readonly boot: BoxKeys
  /** The owner whose secrets each caller uses, by the caller's public key. */
  readonly callers: ReadonlyMap<string, string>
  readonly log: Log
}

const MAX_RUNNING = 256

/** Answers callers from one start of the enclave to its end. */
export function createAnswering({
  enclave,
  keys,
  boot,
  callers,
  log,
}: AnsweringOptions): Answering {
  const startedAt = performance.now()
  const publicKey = formatKey(keys.publicKey)
  const bootKey = formatKey(boot.publicKey)
  const guard = createReplayGuard()
  // Opening a message takes time. Proven connections do not wait for unproven ones.
  const waitForTick = createTickQueue()
  const waitUnproven = createTickQueue()
  let running = 0

  async function begin({ isProven, signal }: Sender): Promise<void> {
    await (isProven() ? waitForTick : waitUnproven)(() => signal.aborted)
    signal.throwIfAborted()
  }

  async function carryOut(
    { id, issuedAt, request }: Envelope,
    caller: string,
    arrivedAt: number,
    { prove, signal }: Sender,
  ): Promise<HTTPResponse> {
    const owner = callers.get(caller)
    if (owner === undefined)
      throw new Rejection(403, 'the enclave does not know this caller', false)
    guard.check(`${caller} ${id}`, issuedAt)
    prove()
    if (running >= MAX_RUNNING) throw new Rejection(503, 'the enclave is overloaded', false)
    running++
    try {
      // A caller with a fast clock gets no more time than from the arrival on.
      const since = Math.min(arrivedAt, issuedAt)
      return await enclave.send(request, { owner, startedAt: since, signal })
    } finally {
      running--
    }
  }

  return {
    async bootKey(asker, sender) {
      if (!isPublicKey(asker)) throw new Rejection(400, 'the body is not a public key')
      await begin(sender)
      const upFor = performance.now() - startedAt
      const json = toJSON({ version: VERSION, bootKey, upFor })
      return { status: 200, body: sealBootKey(json, asker, keys) }
    },
    async request(sealed, sender) {
      const arrivedAt = Date.now()
      if (!isFor(sealed, boot))
        throw new Rejection(410, 'the request is not sealed to the boot key of this enclave')
      await begin(sender)
      const opened = openRequest(sealed, boot)
      if (opened === undefined) throw new Rejection(400, 'the request does not open')
      const envelope = readEnvelope(opened.json, publicKey)
      const { id, replyTo } = envelope
      let status = 200
      let outcome: { readonly response: HTTPResponse } | { readonly failure: Failure }
      try {
        const caller = formatKey(opened.caller)
        outcome = { response: await carryOut(envelope, caller, arrivedAt, sender) }
      } catch (thrown) {
        if (thrown instanceof Rejection) {
          status = thrown.status
          log.warn?.(`rejected with ${status}: ${thrown.message}`, { status })
        }
        outcome = { failure: thrown instanceof Rejection ? ofRejection(thrown) : toFailure(thrown) }
      }
      return { status, body: sealAnswer(toJSON({ id, ...outcome }), replyTo, boot) }
    },
    close() {
      boot.secretKey.fill(0)
    },
  }
}

function ofRejection({ message, mayHaveBeenSent }: Rejection): Failure {
  return { code: 'ENCLAVE', message: describeSent(message, mayHaveBeenSent), mayHaveBeenSent }
}
