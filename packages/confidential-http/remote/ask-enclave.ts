import { abortable, createLifetime, isStreamsError, MAX_TIMER } from 'sluice/core'
import {
  type BoxKeys,
  boxKeys,
  createHttp,
  formatKey,
  type HttpAnswer,
  networkReason,
  parseKey,
} from 'sluice/internal'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { checkEvidence } from '../attestation/evidence.js'
import { loadPolicy, type PolicySettings } from '../attestation/load-policy.js'
import { durationMs } from '../request/duration.js'
import { normalizeResponse } from '../response/normalize-response.js'
import { withSent } from '../sent.js'
import { fromFailure, isFailure } from '../thread/failure.js'
import type { Answer } from '../thread/serve-thread.js'
import type { HTTPResponse } from '../types.js'
import {
  type BootKey,
  type BootKeys,
  createBootKeys,
  moment,
  NOT_IN_TIME,
  whyCarriedOut,
} from './boot-keys.js'
import { writeEnvelope } from './envelope.js'
import { versionMismatch } from './rejection.js'
import {
  BOOT_KEY_PATH,
  MAX_SEALED_BYTES,
  openAnswer,
  parseObject,
  REQUEST_PATH,
  sealRequest,
} from './sealing.js'

/** The settings of a remote enclave. */
export interface RemoteSettings {
  readonly url: string
  /** The enclave's public key, pinned. */
  readonly enclavePublicKey: string
  /** The caller's secret key. */
  readonly callerSecretKey: string
  /** What the enclave's evidence is held against. @default none is asked for */
  readonly attestation?: PolicySettings
}

const MAX_ANSWER_BYTES = 16_777_216
/** Milliseconds to wait for the enclave beyond the request's timeout. */
const GRACE = 400

/** A remote enclave, as this caller reaches it. */
interface Remote {
  readonly host: string
  readonly caller: BoxKeys
  readonly bootKeys: BootKeys
  post(path: string, body: Uint8Array, signal: AbortSignal): Promise<HttpAnswer>
}

/** One request to the enclave. */
interface Exchange {
  readonly json: string
  readonly replyTo: BoxKeys
  readonly signal: AbortSignal
  /** Whether bytes of it may have left. */
  hasLeft: boolean
}

/** Asks a remote enclave: seals each request to the enclave's boot key, and accepts only answers from that boot key. */
export async function createAskEnclave({
  url,
  enclavePublicKey,
  callerSecretKey,
  attestation,
}: RemoteSettings): Promise<Answer> {
  const policy = attestation === undefined ? undefined : await loadPolicy(attestation)
  const enclave = parseKey('enclavePublicKey', enclavePublicKey)
  const { host } = new URL(url)
  const http = createHttp()

  function post(path: string, body: Uint8Array, signal: AbortSignal): Promise<HttpAnswer> {
    const headers = new Headers({ 'content-type': 'application/octet-stream' })
    return http({ method: 'POST', url: `${url}${path}`, headers, body, signal }, MAX_ANSWER_BYTES)
  }
  const bootKeys = createBootKeys(
    enclave,
    host,
    (asker, signal) => tryTwice(() => post(BOOT_KEY_PATH, asker, signal), signal),
    policy && ((given, keys) => checkEvidence(given, keys, policy, host)),
  )
  const remote: Remote = {
    host,
    caller: boxKeys(parseKey('callerSecretKey', callerSecretKey)),
    bootKeys,
    post,
  }

  return async function askEnclave(request, { startedAt: issuedAt, signal }) {
    const { timeout } = request.request
    const time = timeout === undefined ? Number.POSITIVE_INFINITY : durationMs(timeout)
    const left = Math.min(MAX_TIMER, Math.max(0, issuedAt + time + GRACE - Date.now()))
    const life = createLifetime(signal)
    const timer = setTimeout(life.end, left)
    const replyTo = boxKeys()
    const id = formatKey(crypto.getRandomValues(new Uint8Array(16)))
    const envelope = { enclave, id, issuedAt, replyTo: replyTo.publicKey, request }
    const json = writeEnvelope(envelope)
    const exchange: Exchange = { json, replyTo, signal: life.signal, hasLeft: false }
    let answer: string
    try {
      answer = await abortable(ask(remote, exchange), life.signal)
    } catch (thrown) {
      const { hasLeft } = exchange
      const late = `the enclave at ${host} ${hasLeft ? 'did not answer in time' : NOT_IN_TIME}`
      const error = life.signal.aborted ? new EnclaveError(late) : toError(thrown, host, hasLeft)
      throw withSent(error, hasLeft)
    } finally {
      clearTimeout(timer)
      life.end()
      replyTo.secretKey.fill(0)
    }
    return readAnswer(answer, id, host)
  }
}

/** Sends the request, and once more to the next boot key if the enclave was restarted before it could carry the request out. */
async function ask(remote: Remote, exchange: Exchange): Promise<string> {
  const { host, bootKeys } = remote
  const { signal } = exchange
  const boot = await bootKeys.current(signal)
  const sentAt = moment()
  const first = await send(remote, exchange, boot)
  if (first !== undefined) return first
  const next = await bootKeys.current(signal, boot)
  const why = whyCarriedOut(boot, next, sentAt)
  if (why !== undefined) throw new EnclaveError(`the enclave at ${host} ${why}`)
  exchange.hasLeft = false
  const second = await send(remote, exchange, next)
  if (second !== undefined) return second
  throw new EnclaveError(`the enclave at ${host} rejects the boot key that it has just given`)
}

/** Returns the JSON of the answer; undefined if the answer says that the boot key is no longer valid. */
async function send(
  { host, caller, post }: Remote,
  exchange: Exchange,
  boot: BootKey,
): Promise<string | undefined> {
  const { json, replyTo, signal } = exchange
  const body = sealRequest(json, boot.publicKey, caller)
  if (body.byteLength > MAX_SEALED_BYTES) {
    throw new EnclaveError(
      `the request must be at most ${MAX_SEALED_BYTES} bytes on its way to ${host}, not ${body.byteLength}`,
      { code: 'LIMIT', mayHaveBeenSent: false },
    )
  }
  const sentAt = moment()
  let attempts = 0
  async function postOnce(): Promise<HttpAnswer> {
    const { hasLeft } = exchange
    attempts++
    exchange.hasLeft = true
    try {
      return await post(REQUEST_PATH, body, signal)
    } catch (thrown) {
      if (isUnconnected(thrown)) exchange.hasLeft = hasLeft
      throw thrown
    }
  }

  // The same bytes can be sent again: the enclave carries no request out twice.
  const answer = await tryTwice(postOnce, signal)
  const opened = openAnswer(answer.body, boot.publicKey, replyTo)
  if (opened !== undefined && sentAt.steady > boot.aliveAt.steady) boot.aliveAt = sentAt
  if (answer.status === 409 && attempts > 1)
    throw new EnclaveError(
      `the connection to the enclave at ${host} was lost before its answer came`,
    )
  if (opened !== undefined) return opened
  if (answer.status === 410) return undefined
  throw new EnclaveError(
    answer.status === 200
      ? `the answer from ${host} is not of the enclave with the pinned key`
      : `the enclave at ${host} ${versionMismatch(answer) ?? meaningOf(answer.status)}`,
  )
}

/** Tries again after a network failure, because an idle connection may have been closed. */
async function tryTwice<Value>(work: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  try {
    return await work()
  } catch (thrown) {
    if (signal.aborted || isStreamsError(thrown)) throw thrown
    return work()
  }
}

/** True if no connection was made, so that nothing was sent. fetch reports the reason in the causes of its error. */
function isUnconnected(thrown: unknown): boolean {
  if (typeof thrown !== 'object' || thrown === null) return false
  const {
    code,
    syscall,
    cause,
    errors = [],
  } = thrown as {
    readonly code?: unknown
    readonly syscall?: unknown
    readonly cause?: unknown
    readonly errors?: readonly unknown[]
  }
  if (syscall === 'connect' || syscall === 'getaddrinfo' || code === 'UND_ERR_CONNECT_TIMEOUT')
    return true
  // There is one error for each address of the host.
  return errors.length > 0 ? errors.every(isUnconnected) : isUnconnected(cause)
}

function toError(thrown: unknown, host: string, hasLeft: boolean): EnclaveError {
  for (const code of ['ENCLAVE', 'LIMIT', 'ATTESTATION'] as const)
    if (isStreamsError(thrown, code)) return thrown
  if (isStreamsError(thrown))
    return new EnclaveError(`the answer from ${host} is invalid: ${thrown.message}`)
  const what = hasLeft ? 'the connection to the enclave at' : 'the enclave at'
  const how = hasLeft ? 'failed' : 'could not be reached'
  return new EnclaveError(`${what} ${host} ${how}: ${networkReason(thrown)}`)
}

/** Explains the status of an unsealed rejection, whose text is not authentic. */
function meaningOf(status: number): string {
  const meanings: Readonly<Record<number, string>> = {
    400: 'can not read the request',
    413: 'rejects the request as too long',
    503: 'is overloaded',
  }
  return meanings[status] ?? `answered ${status}`
}

/** Reads the answer that an enclave has sealed to the request with this id. */
export function readAnswer(json: string, id: string, host: string): HTTPResponse {
  const answer = parseObject(json)
  if (answer === undefined) throw new EnclaveError(`the answer from ${host} is not JSON`)
  if (answer.id !== id) throw new EnclaveError(`the answer from ${host} belongs to another request`)
  if (isFailure(answer.failure)) throw fromFailure(answer.failure)
  return normalizeResponse(answer.response)
}
