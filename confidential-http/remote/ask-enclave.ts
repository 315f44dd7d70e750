import { abortable } from '../../core/abortable.js'
import { EnclaveError, isStreamsError } from '../../core/errors.js'
import { formatKey, parseKey } from '../../core/hex-key.js'
import { createLifetime } from '../../core/lifetime.js'
import { MAX_TIMER } from '../../core/options.js'
import { boxKeys } from '../../core/sealed-box.js'
import { networkReason } from '../../core/send.js'
import { createHttp, type HttpAnswer, type HttpRequest } from '../../core/transport/http.js'
import { durationMs } from '../request/duration.js'
import type { ConfidentialHTTPRequestMessage } from '../request/normalize-request.js'
import { normalizeResponse } from '../response/normalize-response.js'
import { fromFailure, isFailure } from '../thread/failure.js'
import type { Answer } from '../thread/serve-thread.js'
import type { HTTPResponse } from '../types.js'
import { MAX_SEALED_BYTES, openAnswer, REQUEST_PATH, sealRequest, toJSON } from './sealing.js'

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

/** Asks a remote enclave: seals each request to its pinned key, and takes no answer but one from that key. */
export function createAskEnclave(settings: RemoteSettings): Answer {
  const { url } = settings
  const enclave = parseKey('enclaveKey', settings.enclaveKey)
  const caller = boxKeys(parseKey('callerKey', settings.callerKey))
  const { host } = new URL(url)
  const http = createHttp()

  /** Tries again where the network failed: a connection kept from before may have been closed meanwhile. */
  async function post(asked: HttpRequest): Promise<HttpAnswer> {
    try {
      return await http(asked, MAX_ANSWER_BYTES)
    } catch (thrown) {
      if (asked.signal.aborted || isStreamsError(thrown)) throw thrown
      // The same bytes again: the enclave carries no request out twice.
      const answer = await http(asked, MAX_ANSWER_BYTES)
      if (answer.status !== 409) return answer
      throw new EnclaveError(
        `the connection to the enclave at ${host} was lost before its answer came: the request may have been carried out`,
      )
    }
  }

  return async function askEnclave(message, { startedAt, signal }) {
    const { timeout } = message.request
    const replyTo = boxKeys()
    const id = formatKey(crypto.getRandomValues(new Uint8Array(16)))
    const body = sealRequest(envelope(id, replyTo.publicKey, message), enclave, caller)
    if (body.byteLength > MAX_SEALED_BYTES) {
      throw new EnclaveError(
        `the request must be at most ${MAX_SEALED_BYTES} bytes on its way to ${host}, not ${body.byteLength}`,
        { code: 'LIMIT' },
      )
    }

    const time = timeout === undefined ? Number.POSITIVE_INFINITY : durationMs(timeout)
    const left = Math.min(MAX_TIMER, Math.max(0, startedAt + time + GRACE - Date.now()))
    const life = createLifetime(signal)
    const timer = setTimeout(life.end, left)

    let answer: HttpAnswer
    try {
      const headers = new Headers({ 'content-type': 'application/octet-stream' })
      const asked = {
        method: 'POST',
        url: `${url}${REQUEST_PATH}`,
        headers,
        body,
        signal: life.signal,
      }
      answer = await abortable(post(asked), life.signal)
    } catch (thrown) {
      if (life.signal.aborted)
        throw new EnclaveError(`the enclave at ${host} did not answer in time`)
      if (isStreamsError(thrown, 'ENCLAVE')) throw thrown
      if (isStreamsError(thrown))
        throw new EnclaveError(`the answer from ${host} can't be taken: ${thrown.message}`)
      throw new EnclaveError(
        `the enclave at ${host} could not be reached: ${networkReason(thrown)}`,
      )
    } finally {
      clearTimeout(timer)
      life.end()
    }
    if (answer.status !== 200) throw new EnclaveError(`the enclave at ${host} ${refusal(answer)}`)
    const json = openAnswer(answer.body, enclave, replyTo)
    replyTo.secretKey.fill(0)
    if (json === undefined)
      throw new EnclaveError(`the answer from ${host} is not of the enclave with the pinned key`)
    return readAnswer(json, id, host)
  }
}

function envelope(
  id: string,
  replyTo: Uint8Array,
  message: ConfidentialHTTPRequestMessage,
): string {
  const { body, ...others } = message.request
  // JSON can't say that a case is undefined.
  const request = { ...others, ...(body.case === undefined ? {} : { body }) }
  return toJSON({
    version: 1,
    id,
    issuedAt: Date.now(),
    replyTo: formatKey(replyTo),
    request: { ...message, request },
  })
}

/** What a refusal says is not sealed, so only what its status means is told. */
function refusal({ status }: HttpAnswer): string {
  const meanings: Readonly<Record<number, string>> = {
    400: 'can not open the request: is its public key the pinned one?',
    403: 'does not know this caller',
    409: 'takes the request for a repetition: are both clocks right, and was the enclave just started?',
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
