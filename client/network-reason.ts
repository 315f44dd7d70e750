import { isError } from '../core/errors.js'

/** Advice on a failed TLS handshake, by the code of its error. */
const advice: readonly (readonly [RegExp, string])[] = [
  [
    /^(DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_VERIFY_LEAF_SIGNATURE|UNABLE_TO_GET_ISSUER_CERT(_LOCALLY)?)$/,
    'give the certificate of the authority that signed its own as tls.ca',
  ],
  [
    /^ERR_SSL_(TLSV13_ALERT_CERTIFICATE_REQUIRED|SSLV3_ALERT_HANDSHAKE_FAILURE)$/,
    'it may want a client certificate: give tls.cert and tls.key',
  ],
  [
    /^ERR_SSL_(SSLV3_ALERT_(BAD|UNSUPPORTED)_CERTIFICATE|SSLV3_ALERT_CERTIFICATE_\w+|TLSV1_ALERT_UNKNOWN_CA)$/,
    'it rejects the client certificate tls.cert',
  ],
]

/** Matches an error of OpenSSL, as Node.js shows it. The group is the reason. */
const openSSL = /(?:^|\s)[0-9A-F]+:error:[0-9A-F]+:SSL routines:[^:]*:([^:]+)(?::|$)/
/** The reasons of OpenSSL if the first bytes of the answer are not TLS. */
const noTLS = /^(wrong version number|http request|packet length too long|record layer failure)$/
const NO_TLS = 'the port speaks http, not TLS: its URL begins with http:// or ws://'

/**
 * The reason of a network failure. `fetch` says only `fetch failed`; the innermost cause says more.
 */
export function networkReason(thrown: unknown): string {
  const cause = innermost(thrown)
  if (!isError(cause)) return String(cause)
  const { message } = cause
  const [, failure] = openSSL.exec(message) ?? []
  if (failure !== undefined)
    return noTLS.test(failure) ? NO_TLS : `the TLS handshake failed: ${failure}`
  return message || codeOf(cause) || cause.name
}

/** The reason of a network failure, with advice on the client's options. */
export function adviseOn(thrown: unknown): string {
  const code = codeOf(innermost(thrown)) ?? ''
  const [, hint] = advice.find(([codes]) => codes.test(code)) ?? []
  const reason = networkReason(thrown)
  return hint === undefined ? reason : `${reason}: ${hint}`
}

function innermost(thrown: unknown): unknown {
  return isError(thrown) && thrown.cause !== undefined ? innermost(thrown.cause) : thrown
}

function codeOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown }
  return typeof code === 'string' ? code : undefined
}
