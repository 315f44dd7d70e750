import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { optional, readOptions, type Schema, ValidationError } from 'sluice/core'
import { formatKey, parseKey } from 'sluice/internal'
import { loadFunction } from '../load-function.js'
import type { AttestationPolicy, Attestor } from './evidence.js'

/** The format of the evidence that a software attestor makes. */
const FORMAT = 'sluice-software-v1'

/** Options of `softwareAttestor`. */
export interface SoftwareAttestorOptions {
  /** The Ed25519 secret key that signs evidence, 64 hexadecimal digits. */
  readonly secretKey: string
  /**
   * The measurement of the code that the enclave claims to run, 64 hexadecimal digits. @default
   * `measureCode()`
   */
  readonly measurement?: string
}

/** Options of `softwarePolicy`: the evidence that a caller accepts from a software attestor. */
export interface SoftwarePolicyOptions {
  /** The Ed25519 public key of the attestor, 64 hexadecimal digits. */
  readonly publicKey: string
  /** The measurements that are accepted, 64 hexadecimal digits each. */
  readonly measurements: readonly string[]
}

const attestorRules = {
  secretKey: checkKey,
  measurement: optional(checkKey),
} satisfies Schema<SoftwareAttestorOptions>

const policyRules = {
  publicKey: checkKey,
  measurements: checkMeasurements,
} satisfies Schema<SoftwarePolicyOptions>

function checkKey(field: string, given: unknown): string {
  return formatKey(parseKey(field, given))
}

function checkMeasurements(field: string, given: unknown): readonly string[] {
  if (!Array.isArray(given) || given.length === 0)
    throw new ValidationError(`${field} must name at least one`)
  return given.map((each, index) => checkKey(`${field}[${index}]`, each))
}

/** An attestor, with the public key that verifies its signatures. */
export interface SoftwareAttestor extends Attestor {
  /** The Ed25519 public key, 64 hexadecimal digits. */
  readonly publicKey: string
}

/**
 * The DER headers that node:crypto needs before the 32 bytes of a secret or public key (RFC 8410).
 */
const PKCS8 = '302e020100300506032b657004220420'
const SPKI = '302a300506032b6570032100'

/**
 * Makes an attestor that signs a measurement of the code together with the binding. Use it only for
 * tests and development. Its evidence proves nothing about the machine or the code, because anyone
 * who has the key can sign any measurement.
 */
export function softwareAttestor(options: SoftwareAttestorOptions): SoftwareAttestor {
  const given = readOptions('softwareAttestor', options, attestorRules)
  const der = Buffer.from(PKCS8 + given.secretKey, 'hex')
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })
  const measurement = Buffer.from(given.measurement ?? measureCode(), 'hex')
  const spki = createPublicKey(key).export({ format: 'der', type: 'spki' })
  return {
    format: FORMAT,
    publicKey: formatKey(spki.subarray(-32)),
    attest(binding) {
      const signed = Buffer.concat([Buffer.from(FORMAT), measurement, binding])
      return new Uint8Array(Buffer.concat([measurement, sign(null, signed, key)]))
    },
  }
}

/**
 * Makes a policy that accepts evidence from a software attestor with the expected key and an
 * expected measurement.
 */
export function softwarePolicy(options: SoftwarePolicyOptions): AttestationPolicy {
  const given = readOptions('softwarePolicy', options, policyRules, 'attestation.')
  const der = Buffer.from(SPKI + given.publicKey, 'hex')
  const key = createPublicKey({ key: der, format: 'der', type: 'spki' })
  return function checkSoftware({ format, bytes, binding }) {
    if (format !== FORMAT) throw new Error(`its evidence is of the format ${format}, not ${FORMAT}`)
    if (bytes.byteLength !== 96) throw new Error('its evidence must be 96 bytes')
    const measurement = bytes.subarray(0, 32)
    const signed = Buffer.concat([Buffer.from(FORMAT), measurement, binding])
    if (!verify(null, signed, key, bytes.subarray(32)))
      throw new Error('its evidence is not signed by the key, or for another enclave or question')
    if (!given.measurements.includes(formatKey(measurement)))
      throw new Error(`its measurement is ${formatKey(measurement)}, which is not expected`)
  }
}

/**
 * A policy in a form that can be sent to another thread: the URL of a module, or the options of
 * `softwarePolicy`.
 */
export type PolicySettings = string | SoftwarePolicyOptions

/** The option rule for a policy. */
export function checkPolicy(field: string, given: unknown): PolicySettings {
  if (typeof given === 'object' && given !== null && !(given instanceof URL)) {
    softwarePolicy(given as SoftwarePolicyOptions)
    return given as SoftwarePolicyOptions
  }
  const url = String(given)
  if (URL.canParse(url)) return url
  throw new ValidationError(
    `${field} must be an absolute URL, such as new URL(…, import.meta.url), or what is expected of a software attestor`,
  )
}

/** Loads the policy from its settings. */
export async function loadPolicy(settings: PolicySettings): Promise<AttestationPolicy> {
  return typeof settings === 'string'
    ? loadFunction<AttestationPolicy>('attestation', settings)
    : softwarePolicy(settings)
}

/** The packages whose code runs in an enclave. */
const measured = ['sluice', '@sluice/confidential-http']

/**
 * Computes the SHA-256 of all installed code of this package and of `sluice`, as 64 hexadecimal
 * digits. Other dependencies are not included.
 */
export function measureCode(): string {
  const { resolve } = createRequire(import.meta.url)
  const walk = (folder: string): string[] =>
    readdirSync(folder, { withFileTypes: true }).flatMap(entry => {
      const path = join(folder, entry.name)
      if (entry.isDirectory()) return walk(path)
      return entry.name.endsWith('.js') ? [path] : []
    })
  const hash = createHash('sha256')
  for (const name of measured) {
    const folder = dirname(resolve(`${name}/package.json`))
    for (const path of walk(join(folder, 'dist')).sort()) {
      const digest = createHash('sha256').update(readFileSync(path)).digest('hex')
      hash.update(`${name}/${relative(folder, path).replaceAll('\\', '/')} ${digest}\n`)
    }
  }
  return hash.digest('hex')
}
