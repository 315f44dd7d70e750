import type { Log } from 'sluice/core'
import { formatKey, isPublicKey } from 'sluice/internal'
import { type Attestor, type Evidence, presentEvidence } from '../attestation/evidence.js'
import type { Enclave } from '../enclave/enclave.js'
import { describeSent } from '../sent.js'
import { type Failure, toFailure } from '../thread/failure.js'
import type { HTTPResponse } from '../types.js'
import { type Asker, createAdmission } from './admission.js'
import type { CallerGuard } from './caller-limits.js'
import type { Callers } from './callers.js'
import { startCurveThreads } from './curve-threads.js'
import type { CurveKeys } from './curve-work.js'
import { type Envelope, readEnvelope } from './envelope.js'
import type { Refusals } from './refusals.js'
import { Rejection } from './rejection.js'
import { createReplayGuard } from './replay-guard.js'
import { isFor, MIN_SEALED_BYTES, toJSON, VERSION } from './sealing.js'

/** The connection that a message came on. */
export interface Sender extends Asker {
  /** Marks the connection as one that has brought an authentic request. */
  prove(): void
}

/** The answer to a caller. */
export interface SealedAnswer {
  readonly status: number
  readonly body: Uint8Array
  /** Milliseconds after which the caller may ask again. */
  readonly retryAfter?: number
}

/** Answers the callers of an enclave. Both methods reject with Rejection if no sealed answer is possible. */
export interface Answering {
  /** Answers a caller that asks for the boot key. */
  bootKey(asker: Uint8Array, sender: Sender): Promise<SealedAnswer>
  /** Carries a request out. If the request could be opened, the answer is sealed to its caller, also after a failure. */
  request(sealed: Uint8Array, sender: Sender): Promise<SealedAnswer>
  /** Resolves when no request is carried out any more, and zeroes the boot key. */
  close(): Promise<void>
}

/** Options of `createAnswering`. */
export interface AnsweringOptions {
  readonly enclave: Enclave
  readonly keys: CurveKeys
  /** The owner whose secrets each caller uses, by the caller's public key. */
  readonly callers: Callers
  /** What each caller may ask. */
  readonly limits: CallerGuard
  /** Makes evidence for each question for the boot key. */
  readonly attestor?: Attestor | undefined
  /** Records what is refused before the enclave is asked. */
  readonly refusals?: Refusals | undefined
  readonly log: Log
}

/** How much evidence is made at once: hardware takes its time. */
const MAX_ATTESTING = 2
const MAX_RUNNING = 256

/** Answers callers from one start of the enclave to its end. */
export function createAnswering({
  enclave,
  keys,
  callers,
  limits,
  attestor,
  refusals,
  log,
}: AnsweringOptions): Answering {
  const startedAt = performance.now()
  const { boot } = keys
  const publicKey = formatKey(keys.enclave.publicKey)
  const bootKey = formatKey(boot.publicKey)
  const guard = createReplayGuard()
  const threads = startCurveThreads(keys)
  const makeEvidence = createPresenting(keys, attestor)
  const running = new Set<Promise<unknown>>()

  /** Returns the owner whose secrets the caller uses. */
  function authenticate({ id, issuedAt }: Envelope, caller: string, { prove }: Sender): string {
    const owner = callers.ownerOf(caller)
    if (owner === undefined)
      throw new Rejection(403, 'the enclave does not know this caller', false)
    // Before the caller's limits: a request that they refuse never is carried out, and who repeats what it recorded uses none up.
    guard.check(caller, id, issuedAt)
    prove()
    return owner
  }

  async function carryOut(
    { issuedAt, request }: Envelope,
    { name, owner }: { readonly name: string; readonly owner: string },
    arrivedAt: number,
    { signal }: Sender,
  ): Promise<HTTPResponse> {
    if (running.size >= MAX_RUNNING) throw new Rejection(503, 'the enclave is overloaded', false)
    // A caller with a fast clock gets no more time than from the arrival on.
    const since = Math.min(arrivedAt, issuedAt)
    const sent = enclave.send(request, { name, owner, startedAt: since, signal })
    running.add(sent)
    return sent.finally(() => running.delete(sent))
  }

  return {
    async bootKey(asker, sender) {
      if (!isPublicKey(asker)) throw new Rejection(400, 'the body is not a public key')
      const evidence = await makeEvidence(asker, sender)
      const body = await threads.run(function sealKey() {
        const upFor = performance.now() - startedAt
        const json = toJSON({ version: VERSION, bootKey, upFor, evidence })
        return { type: 'seal-boot-key', json, asker: new Uint8Array(asker) }
      }, sender)
      return { status: 200, body }
    },
    async request(sealed, sender) {
      const arrivedAt = Date.now()
      if (!isFor(sealed, boot))
        throw new Rejection(410, 'the request is not sealed to the boot key of this enclave')
      if (sealed.byteLength < MIN_SEALED_BYTES) throw new Rejection(400, 'the request is too short')
      const opened = await threads.run(
        () => ({ type: 'open-request', sealed: new Uint8Array(sealed) }),
        sender,
      )
      if (opened === undefined) throw new Rejection(400, 'the request does not open')
      const envelope = readEnvelope(opened.json, publicKey)
      const { id, replyTo } = envelope
      let status = 200
      let leave: ((bytes: number) => void) | undefined
      let known: string | undefined
      let outcome: { readonly response: HTTPResponse } | { readonly failure: Failure }
      try {
        const name = formatKey(opened.caller)
        const owner = authenticate(envelope, name, sender)
        known = name
        leave = limits.enter(name, sealed.byteLength)
        outcome = { response: await carryOut(envelope, { name, owner }, arrivedAt, sender) }
      } catch (thrown) {
        const failure = thrown instanceof Rejection ? ofRejection(thrown) : toFailure(thrown)
        if (thrown instanceof Rejection) status = thrown.status
        else if (failure.code === 'RATE_LIMIT') status = 429
        const isRecorded = status === 200 && failure.code !== 'VALIDATION'
        if (known !== undefined && !isRecorded) refusals?.add(known, failure.code)
        if (status !== 200) log.warn?.(`rejected with ${status}: ${failure.message}`, { status })
        outcome = { failure }
      }
      const json = toJSON({ id, ...outcome })
      leave?.(Buffer.byteLength(json))
      const body = await threads.run(() => ({ type: 'seal-answer', json, replyTo }), sender)
      const retryAfter = 'failure' in outcome ? outcome.failure.retryAfter : undefined
      return { status, body, ...(retryAfter === undefined ? {} : { retryAfter }) }
    },
    async close() {
      await Promise.allSettled(running)
      await threads.close()
      boot.secretKey.fill(0)
    },
  }
}

type MakeEvidence = (nonce: Uint8Array, sender: Sender) => Promise<Evidence | undefined>

/** Presents evidence to each question, a few at once. */
function createPresenting(
  { enclave, boot }: CurveKeys,
  attestor: Attestor | undefined,
): MakeEvidence {
  const attesting = createAdmission(MAX_ATTESTING)
  return async function makeEvidence(nonce, sender) {
    if (attestor === undefined) return undefined
    const leave = await attesting.enter(sender)
    try {
      const { publicKey: enclavePublicKey } = enclave
      return await presentEvidence(attestor, { enclavePublicKey, bootKey: boot.publicKey, nonce })
    } finally {
      leave()
    }
  }
}

function ofRejection({ message, mayHaveBeenSent }: Rejection): Failure {
  return { code: 'ENCLAVE', message: describeSent(message, mayHaveBeenSent), mayHaveBeenSent }
}
