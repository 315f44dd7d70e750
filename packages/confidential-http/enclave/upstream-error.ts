import { type ErrorCode, isStreamsError } from 'sluice/core'
import { EnclaveError } from 'sluice/plugins/confidential-http'

/** The errors for the platform's codes. The first match counts. */
const failures: readonly (readonly [RegExp, ErrorCode, string])[] = [
  [
    /CERT|SSL|TLS|SIGNATURE|ISSUER|INVALID_CA|INVALID_PURPOSE|PATH_LENGTH|^EPROTO$|^CRL_|^HOSTNAME_/,
    'UPSTREAM_TLS',
    "the external server's TLS certificate does not verify, or it does not speak TLS",
  ],
  [/^ECONNREFUSED$/, 'UPSTREAM_REFUSED', 'the external server refused the connection'],
  [
    /^(ECONNRESET|ECONNABORTED|EPIPE|ERR_STREAM_PREMATURE_CLOSE)$/,
    'UPSTREAM_CLOSED',
    'the external server closed the connection before its answer was complete',
  ],
  [
    /^(ENOTFOUND|EAI_\w+|ENODATA|EHOSTUNREACH|ENETUNREACH|EADDRNOTAVAIL|EHOSTDOWN|ENETDOWN|ETIMEDOUT)$/,
    'UPSTREAM_HOST',
    'the external host could not be found or reached',
  ],
  [
    /^(HPE_\w+|Z_\w+)$/,
    'UPSTREAM_ANSWER',
    'the external server answered something other than HTTP',
  ],
  [/^ERR_INVALID_CHAR$/, 'TEMPLATE', 'a header holds a character that headers must not hold'],
]

/** Converts the error of a failed request. Quotes only its code, because its message may repeat what was sent. */
export function toUpstreamError(thrown: unknown): EnclaveError {
  if (isStreamsError(thrown)) return thrown as EnclaveError
  const codes = codesOf(thrown)
  for (const [pattern, code, message] of failures) {
    const found = codes.find(each => pattern.test(each))
    if (found !== undefined) return new EnclaveError(`${message} (${found})`, { code })
  }
  return upstreamAnswerError(
    `the external server could not be reached (${codes[0] ?? 'unknown reason'})`,
  )
}

/** Makes the error for an invalid answer. */
export function upstreamAnswerError(message: string): EnclaveError {
  return new EnclaveError(message, { code: 'UPSTREAM_ANSWER' })
}

/** An AggregateError holds one error for each address of the host. */
function codesOf(thrown: unknown): readonly string[] {
  const { code, errors = [] } = thrown as { code?: unknown; errors?: readonly unknown[] }
  const each = errors.map(error => (error as { code?: unknown }).code)
  return [...each, code].filter(one => typeof one === 'string')
}
