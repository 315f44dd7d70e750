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
import type { AttestationPolicy } from '../attestation/evidence.js'
import type { PolicySettings } from '../attestation/software.js'
import { fromFailure, isFailure, withSent } from '../outcome.js'
import { durationMs } from '../request/duration.js'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'
import { normalizeResponse } from '../response/response.js'
import { parseObject } from '../sealed-message.js'
import type { Facts } from '../thread/serve-thread.js'
import type { HTTPResponse } from '../types.js'
import { type BootKey, BootKeys, moment, NOT_IN_TIME, whyCarriedOut } from './boot-keys.js'
import {
  BOOT_KEY_PATH,
  MAX_SEALED_BYTES,
  openAnswer,
  REQUEST_PATH,
  sealRequest,
  versionMismatch,
  writeEnvelope,
} from './protocol.js'

/** The settings of a remote enclave. */
export interface RemoteSettings {
  readonly url: string
  /** The enclave's public key, pinned. */
  readonly enclavePublicKey: string
  /** The caller's secret key. */
  readonly callerSecretKey: string
  /** The policy that the enclave's evidence is checked against. @default none is asked for */
  readonly attestation?: PolicySettings
}

const MAX_ANSWER_BYTES = 16_777_216
/** Milliseconds beyond the request's timeout for which the caller waits for the enclave. */
const GRACE = 400

/** One request to the enclave. */
interface Exchange {
  readonly json: string
  readonly replyTo: BoxKeys
  readonly signal: AbortSignal
  /** True if bytes of the request may have been sent. */
  hasLeft: boolean
}

/**
 * A remote enclave: seals each request to the enclave's boot key, and accepts only answers from
 * that boot key.
 */
export class RemoteEnclave {
  readonly #url: string
  readonly #host: string
  readonly #publicKey: Uint8Array
  readonly #caller: BoxKeys
  readonly #bootKeys: BootKeys
  readonly #http = createHttp()

  constructor(
    { url, enclavePublicKey, callerSecretKey }: RemoteSettings,
    policy: AttestationPolicy | undefined,
  ) {
    const { host } = new URL(url)
    this.#url = url
    this.#host = host
    this.#publicKey = parseKey('enclavePublicKey', enclavePublicKey)
    this.#caller = boxKeys(parseKey('callerSecretKey', callerSecretKey))
    this.#bootKeys = new BootKeys({ publicKey: this.#publicKey, host, policy }, (asker, signal) =>
      tryTwice(() => this.#post(BOOT_KEY_PATH, asker, signal), signal),
    )
  }

  /** Makes a request. The error says whether the request may have been carried out. */
  async ask(
    request: ConfidentialHTTPRequestMessage,
    { startedAt: issuedAt, signal }: Pick<Facts, 'startedAt' | 'signal'>,
  ): Promise<HTTPResponse> {
    const host = this.#host
    const { timeout } = request.request
    const time = timeout === undefined ? Number.POSITIVE_INFINITY : durationMs(timeout)
    const left = Math.min(MAX_TIMER, Math.max(0, issuedAt + time + GRACE - Date.now()))
    const life = createLifetime(signal)
    const timer = setTimeout(life.end, left)
    const replyTo = boxKeys()
    const id = formatKey(crypto.getRandomValues(new Uint8Array(16)))
    const json = writeEnvelope({
      ...{ enclave: this.#publicKey, id, issuedAt },
      ...{ replyTo: replyTo.publicKey, request },
    })
    const exchange: Exchange = { json, replyTo, signal: life.signal, hasLeft: false }
    let answer: string
    try {
      answer = await abortable(this.#exchange(exchange), life.signal)
    } catch (thrown) {
      const { hasLeft } = exchange
      const late = `the enclave at ${host} ${hasLeft ? 'did not answer in time' : NOT_IN_TIME}`
      const error = life.isOver ? new EnclaveError(late) : toError(thrown, host, hasLeft)
      throw withSent(error, hasLeft)
    } finally {
      clearTimeout(timer)
      life.end()
      replyTo.secretKey.fill(0)
    }
    return readAnswer(answer, id, host)
  }

  /**
   * Sends the request. If the enclave was restarted before it could carry the request out, sends it
   * once more to the next boot key.
   */
  async #exchange(exchange: Exchange): Promise<string> {
    const { signal } = exchange
    const boot = await this.#bootKeys.current(signal)
    const sentAt = moment()
    const first = await this.#send(exchange, boot)
    if (first !== undefined) return first
    const next = await this.#bootKeys.current(signal, boot)
    const why = whyCarriedOut(boot, next, sentAt)
    if (why !== undefined) throw new EnclaveError(`the enclave at ${this.#host} ${why}`)
    exchange.hasLeft = false
    const second = await this.#send(exchange, next)
    if (second !== undefined) return second
    throw new EnclaveError(
      `the enclave at ${this.#host} rejects the boot key that it has just given`,
    )
  }

  /**
   * Sends the request to one boot key, and returns the JSON of the answer. Returns undefined if the
   * enclave answers that the boot key is no longer valid.
   */
  async #send(exchange: Exchange, boot: BootKey): Promise<string | undefined> {
    const host = this.#host
    const { json, replyTo, signal } = exchange
    const body = sealRequest(json, boot.publicKey, this.#caller)
    if (body.byteLength > MAX_SEALED_BYTES)
      throw new EnclaveError(
        `the request must be at most ${MAX_SEALED_BYTES} bytes on its way to ${host}, not ${body.byteLength}`,
        { code: 'LIMIT', mayHaveBeenSent: false },
      )
    const sentAt = moment()
    let attempts = 0
    const postOnce = async (): Promise<HttpAnswer> => {
      const { hasLeft } = exchange
      attempts++
      exchange.hasLeft = true
      try {
        return await this.#post(REQUEST_PATH, body, signal)
      } catch (thrown) {
        if (isUnconnected(thrown)) exchange.hasLeft = hasLeft
        throw thrown
      }
    }
    // Sending the same bytes again is safe: the enclave carries no request out twice.
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

  #post(path: string, body: Uint8Array, signal: AbortSignal): Promise<HttpAnswer> {
    const headers = new Headers({ 'content-type': 'application/octet-stream' })
    const request = { method: 'POST', url: `${this.#url}${path}`, headers, body, signal }
    return this.#http(request, MAX_ANSWER_BYTES)
  }
}

/**
 * Does `work`, and tries once more after a network failure, because the server may have closed an
 * idle connection.
 */
async function tryTwice<Value>(work: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  try {
    return await work()
  } catch (thrown) {
    if (signal.aborted || isStreamsError(thrown)) throw thrown
    return work()
  }
}

/**
 * True if no connection was made, so nothing was sent. fetch reports the reason in the causes of
 * its error.
 */
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
  // The error has an entry for each address of the host.
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
