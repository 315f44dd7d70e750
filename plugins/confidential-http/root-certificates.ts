import { X509Certificate } from 'node:crypto'
import { BoundedMap } from '../../core/bounded-map.js'
import { ValidationError } from '../../core/errors.js'
import type { EnclavePlugin } from './call.js'

const certificate = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g
const MAX_CERTIFICATES = 64
/** How many parsed texts are cached. A workflow sends the same certificates with every request. */
const CACHED = 32

/**
 * Lets a request bring its own root certificates. For that request they replace the platform's root
 * certificates. A server whose certificate they do not verify is rejected.
 */
export function rootCertificates(): EnclavePlugin {
  const cache = new BoundedMap<string, readonly string[]>(CACHED)

  /**
   * Parses certificates. Returns the same array for the same text, so that the wire can reuse the
   * TLS context that it has prepared for this array.
   */
  function read(pem: string): readonly string[] {
    const certificates = cache.get(pem) ?? readPem(pem)
    cache.set(pem, certificates)
    return certificates
  }

  return {
    name: 'root-certificates',
    attempt: next =>
      async function trustRoots(call) {
        const { customRootCaCertPem, connection } = call
        if (customRootCaCertPem === undefined) return next(call)
        return next({ ...call, connection: { ...connection, ca: read(customRootCaCertPem) } })
      },
  }
}

function readPem(pem: string): readonly string[] {
  const certificates = pem.match(certificate) ?? []
  if (certificates.length === 0) throw badPem('must hold a certificate in PEM')
  if (certificates.length > MAX_CERTIFICATES)
    throw badPem(`must hold at most ${MAX_CERTIFICATES} certificates`)
  for (const [index, each] of certificates.entries()) {
    try {
      new X509Certificate(each)
    } catch {
      throw badPem(`must hold certificates: number ${index + 1} can't be read as one`)
    }
  }
  return certificates
}

function badPem(rule: string): ValidationError {
  return new ValidationError(`request.customRootCaCertPem ${rule}`)
}
