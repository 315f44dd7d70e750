import { networkReason } from '../../client/request/send.js'
import { createHttp, type HttpAnswer } from '../../client/transport/http.js'
import { abortable } from '../../core/abortable.js'
import { isStreamsError } from '../../core/errors.js'
import { createLifetime } from '../../core/lifetime.js'
import { MAX_TIMER } from '../../core/options.js'
import { formatKey, parseKey } from '../../crypto/hex-key.js'
import { type BoxKeys, boxKeys } from '../../crypto/sealed-box.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { durationMs } from '../request/duration.js'
import { normalizeResponse } from '../response/normalize-response.js'
import { withSent } from '../sent.js'
import { fromFailure, isFailure } from '../thread/failure.js'
import type { Answer } from '../thread/serve-thread.js'
import type { HTTPResponse } from '../types.js'
import { type BootKey, createBootKeys, moment, NOT_IN_TIME, whyCarriedOut } from './boot-keys.js'
import { writeEnvelope } from './envelope.js'
import { versionRefusal } from './refusal.js'
import {
  BOOT_KEY_PATH,
  MAX_SEALED_BYTES,
  openAnswer,
  REQUEST_PATH,
  sealRequest,
} from './sealing.js'
import { isUnconnected } from './unconnected.js'

/** How a remote enclave is reached. */
export interface RemoteSettings {
  readonly url: string
  /** The enclave's public key, pinned. */
  readonly enclaveKey: string
  /** The caller's secret key. */
  readonly callerKey: string
}

const MAX_ANSWER_BYTES = 16_777_216
/** How much longer than the request's timeout the enclave is waited for, in milliseconds. */
const GRACE = 400

/** One request on its way. */
interface Journey {
  readonly json: string
  readonly replyTo: BoxKeys
  readonly signal: AbortSignal
  /** Whether bytes of it have left, as far as is known. */
  hasLeft: boolean
}

/**
 * Asks a remote enclave: seals each request to the boot key that the holder of the pinned key has given, and takes no answer
 * but one from that boot key.
 */
export function createAskEnclave(settings: RemoteSettings): Answer {
  const { url } = settings
  const enclave = parseKey('enclaveKey', settings.enclaveKey)
  const caller = boxKeys(parseKey('callerKey', settings.callerKey))
  const { host } = new URL(url)
  const http = createHttp()
  const bootKeys = createBootKeys(enclave, host, (asker, signal) =>
    twice(() => post(BOOT_KEY_PATH, asker, signal), signal),
  )

  function post(path: string, body: Uint8Array, signal: AbortSignal): Promise<HttpAnswer> {
    const headers = new Headers({ 'content-type': 'application/octet-stream' })
    return http({ method: 'POST', url: `${url}${path}`, headers, body, signal }, MAX_ANSWER_BYTES)
  }

  /** The JSON of the answer of one start of the enclave; undefined where that is said to be over. */
  async function send(journey: Journey, boot: BootKey): Promise<string | undefined> {
    const { json, replyTo, signal } = journey
    const body = sealRequest(json, boot.publicKey, caller)
    if (body.byteLength > MAX_SEALED_BYTES) {
      throw new EnclaveError(
        `the request must be at most ${MAX_SEALED_BYTES} bytes on its way to ${host}, not ${body.byteLength}`,
        { code: 'LIMIT', mayHaveBeenSent: false },
      )
    }
    const sentAt = moment()
    let tries = 0
    async function postOnce(): Promise<HttpAnswer> {
      const { hasLeft } = journey
      tries++
      journey.hasLeft = true
      try {
        return await post(REQUEST_PATH, body, signal)
      } catch (thrown) {
        if (isUnconnected(thrown)) journey.hasLeft = hasLeft
        throw thrown
      }
    }

    // The same bytes again: the enclave carries no request out twice.
    const answer = await twice(postOnce, signal)
    const opened = openAnswer(answer.body, boot.publicKey, replyTo)
    if (opened !== undefined && sentAt.steady > boot.aliveAt.steady) boot.aliveAt = sentAt
    if (answer.status === 409 && tries > 1)
      throw new EnclaveError(
        `the connection to the enclave at ${host} was lost before its answer came`,
      )
    if (opened !== undefined) return opened
    if (answer.status === 410) return undefined
    throw new EnclaveError(
      answer.status === 200
        ? `the answer from ${host} is not of the enclave with the pinned key`
        : `the enclave at ${host} ${versionRefusal(answer) ?? meaningOf(answer.status)}`,
    )
  }

  async function ask(journey: Journey): Promise<string> {
    const { signal } = journey
    const boot = await bootKeys.current(signal)
    const sentAt = moment()
    const first = await send(journey, boot)
    if (first !== undefined) return first
    const next = await bootKeys.current(signal, boot)
    const why = whyCarriedOut(boot, next, sentAt)
    if (why !== undefined) throw new EnclaveError(`the enclave at ${host} ${why}`)
    journey.hasLeft = false
    const second = await send(journey, next)
    if (second !== undefined) return second
    throw new EnclaveError(`the enclave at ${host} refuses the boot key that it has just given`)
  }

  return async function askEnclave(message, { startedAt, signal }) {
    const { timeout } = message.request
    const time = timeout === undefined ? Number.POSITIVE_INFINITY : durationMs(timeout)
    const left = Math.min(MAX_TIMER, Math.max(0, startedAt + time + GRACE - Date.now()))
    const life = createLifetime(signal)
    const timer = setTimeout(life.end, left)
    const replyTo = boxKeys()
    const id = formatKey(crypto.getRandomValues(new Uint8Array(16)))
    const journey: Journey = {
      json: writeEnvelope({
        enclave,
        id,
        issuedAt: startedAt,
        replyTo: replyTo.publicKey,
        request: message,
      }),
      replyTo,
      signal: life.signal,
      hasLeft: false,
    }
    let answer: string
    try {
      answer = await abortable(ask(journey), life.signal)
    } catch (thrown) {
      const { hasLeft } = journey
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

/** Once more where the network failed: a connection kept from before may have been closed meanwhile. */
async function twice<Value>(work: () => Promise<Value>, signal: AbortSignal): Promise<Value> {
  try {
    return await work()
  } catch (thrown) {
    if (signal.aborted || isStreamsError(thrown)) throw thrown
    return work()
  }
}

function toError(thrown: unknown, host: string, hasLeft: boolean): EnclaveError {
  if (isStreamsError(thrown, 'ENCLAVE') || isStreamsError(thrown, 'LIMIT')) return thrown
  if (isStreamsError(thrown))
    return new EnclaveError(`the answer from ${host} can't be taken: ${thrown.message}`)
  const what = hasLeft ? 'the connection to the enclave at' : 'the enclave at'
  const how = hasLeft ? 'failed' : 'could not be reached'
  return new EnclaveError(`${what} ${host} ${how}: ${networkReason(thrown)}`)
}

/** What a refusal says is not sealed, so only what its status means is repeated. */
function meaningOf(status: number): string {
  const meanings: Readonly<Record<number, string>> = {
    400: 'can not read the request',
    413: 'takes the request for too long',
    503: 'has too much to do',
  }
  return meanings[status] ?? `answered ${status}`
}

/** Reads what an enclave has sealed as the answer to the request of this id. */
export function readAnswer(json: string, id: string, host: string): HTTPResponse {
  let answer: Readonly<Record<string, unknown>>
  try {
    answer = JSON.parse(json) ?? {}
  } catch {
    throw new EnclaveError(`the answer from ${host} is not JSON`)
  }
  if (answer.id !== id) throw new EnclaveError(`the answer from ${host} belongs to another request`)
  if (isFailure(answer.failure)) throw fromFailure(answer.failure)
  return normalizeResponse(answer.response)
}
