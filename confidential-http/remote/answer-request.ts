import type { Log } from '../../core/log.js'
import { formatKey } from '../../crypto/hex-key.js'
import { type BoxKeys, isPublicKey } from '../../crypto/sealed-box.js'
import type { Enclave } from '../enclave/enclave.js'
import { describeSent } from '../sent.js'
import { type Failure, toFailure } from '../thread/failure.js'
import { createTurns } from '../thread/turns.js'
import type { HTTPResponse } from '../types.js'
import { readEnvelope } from './envelope.js'
import { Refusal } from './refusal.js'
import { createReplayGuard } from './replay-guard.js'
import { isFor, openRequest, sealAnswer, sealBootKey, toJSON, VERSION } from './sealing.js'

/** Who has sent something, as far as that is known before it is opened. */
export interface Sender {
  /** Whether this connection has brought an authentic request before. */
  isProven(): boolean
  /** Says that it has. */
  prove(): void
  /** Aborted when the connection is gone. */
  readonly signal: AbortSignal
}

/** What is answered. */
export interface SealedAnswer {
  readonly status: number
  readonly body: Uint8Array
}

/** Answers what callers post. Both reject with Refusal where nothing can be sealed to anybody. */
export interface Answering {
  /** Answers a question for the boot key. */
  bootKey(asker: Uint8Array, sender: Sender): Promise<SealedAnswer>
  /** Carries a request out; whatever comes of one that could be opened is sealed to its caller. */
  request(sealed: Uint8Array, sender: Sender): Promise<SealedAnswer>
  /** Forgets the boot key. */
  close(): void
}

/** What answering takes. */
export interface AnsweringParts {
  readonly enclave: Enclave
  readonly keys: BoxKeys
  /** The boot key, made for this start. */
  readonly boot: BoxKeys
  /** The owner whose secrets each caller uses. */
  readonly callers: ReadonlyMap<string, string>
  readonly log: Log
}

const MAX_RUNNING = 256

/** Answers callers for one start of the enclave. */
export function createAnswering({ enclave, keys, boot, callers, log }: AnsweringParts): Answering {
  const startedAt = performance.now()
  const publicKey = formatKey(keys.publicKey)
  const bootKey = formatKey(boot.publicKey)
  const guard = createReplayGuard()
  // To open what a stranger has sent takes time as well: those who have proven themselves don't wait behind it.
  const takeTurn = createTurns()
  const takeStrangersTurn = createTurns()
  let running = 0

  async function begin({ isProven, signal }: Sender): Promise<void> {
    await (isProven() ? takeTurn : takeStrangersTurn)(() => signal.aborted)
    signal.throwIfAborted()
  }

  async function carryOut(
    { id, issuedAt, request }: ReturnType<typeof readEnvelope>,
    caller: string,
    arrivedAt: number,
    { prove, signal }: Sender,
  ): Promise<HTTPResponse> {
    const owner = callers.get(caller)
    if (owner === undefined) throw new Refusal(403, 'the enclave does not know this caller', false)
    guard.check(`${caller} ${id}`, issuedAt)
    prove()
    if (running >= MAX_RUNNING) throw new Refusal(503, 'the enclave has too much to do', false)
    running++
    try {
      // A caller whose clock is ahead gets no more time than from the arrival on.
      return await enclave.send(request, {
        owner,
        startedAt: Math.min(arrivedAt, issuedAt),
        signal,
      })
    } finally {
      running--
    }
  }

  return {
    async bootKey(asker, sender) {
      if (!isPublicKey(asker)) throw new Refusal(400, 'this is no public key')
      await begin(sender)
      const upFor = performance.now() - startedAt
      const json = toJSON({ version: VERSION, bootKey, upFor })
      return { status: 200, body: sealBootKey(json, asker, keys) }
    },
    async request(sealed, sender) {
      const arrivedAt = Date.now()
      if (!isFor(sealed, boot))
        throw new Refusal(410, 'the request is not sealed to the boot key of this enclave')
      await begin(sender)
      const opened = openRequest(sealed, boot)
      if (opened === undefined) throw new Refusal(400, 'the request does not open')
      const envelope = readEnvelope(opened.json, publicKey)
      const { id, replyTo } = envelope
      let status = 200
      let outcome: { readonly response: HTTPResponse } | { readonly failure: Failure }
      try {
        const caller = formatKey(opened.caller)
        outcome = { response: await carryOut(envelope, caller, arrivedAt, sender) }
      } catch (thrown) {
        if (thrown instanceof Refusal) {
          status = thrown.status
          log.warn?.(`refused with ${status}: ${thrown.message}`, { status })
        }
        outcome = { failure: thrown instanceof Refusal ? ofRefusal(thrown) : toFailure(thrown) }
      }
      return { status, body: sealAnswer(toJSON({ id, ...outcome }), replyTo, boot) }
    },
    close() {
      boot.secretKey.fill(0)
    },
  }
}

function ofRefusal({ message, mayHaveBeenSent }: Refusal): Failure {
  return { code: 'ENCLAVE', message: describeSent(message, mayHaveBeenSent), mayHaveBeenSent }
}
