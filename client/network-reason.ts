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

/**
 * The reason of a network failure. `fetch` says only `fetch failed`; the innermost cause says more.
 */
export function networkReason(thrown: unknown): string {
  const cause = innermost(thrown)
  if (!isError(cause)) return String(cause)
  return cause.message || codeOf(cause) || cause.name
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
