import type { Log } from 'sluice/core'
import type { ConfidentialHTTPRequestMessage } from './request/message.js'
import { toFailure } from './thread/failure.js'
import type { HTTPResponse } from './types.js'

/** Logs the outcome of a request and returns it. Logs only the host of its URL: paths and queries may be confidential. */
export async function logOutcome(
  log: Log,
  { request }: ConfidentialHTTPRequestMessage,
  { startedAt, signal }: { readonly startedAt: number; readonly signal: AbortSignal },
  outcome: Promise<HTTPResponse>,
): Promise<HTTPResponse> {
  const { method, url } = request
  const { host } = new URL(url)
  try {
    const response = await outcome
    const { statusCode: status } = response
    const ms = Date.now() - startedAt
    log.info?.(`${method} ${host}: ${status} in ${ms} ms`, { method, host, status, ms })
    return response
  } catch (thrown) {
    const { code, message } = toFailure(thrown)
    const ms = Date.now() - startedAt
    if (!signal.aborted)
      log.warn?.(`${method} ${host} failed in ${ms} ms: ${message}`, { method, host, code, ms })
    throw thrown
  }
}
