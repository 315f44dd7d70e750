import { checkNumber, checkOptions, MAX_TIMER, type OptionNames } from 'sluice/core'
import { checkURL, parseKey, parsePublicKey } from 'sluice/internal'
import { checkPolicy } from '../attestation/load-policy.js'
import type { SoftwarePolicyOptions } from '../attestation/software.js'
import type { RemoteSettings } from '../remote/ask-enclave.js'
import { createRuntime, type Runtime, type RuntimeOptions, runtimeNames } from './runtime.js'

/** Options of `createRemoteRuntime`. */
export interface RemoteRuntimeOptions<Config = unknown, Report = never>
  extends RuntimeOptions<Config, Report> {
  /** The URL of the enclave. */
  readonly url: string
  /** The enclave's public key, 64 hexadecimal digits, which alone authenticates the enclave. */
  readonly enclavePublicKey: string
  /** The caller's secret key, 64 hexadecimal digits. The enclave knows the caller's public key. */
  readonly callerSecretKey: string
  /**
   * What the enclave's evidence is held against before anything is sent: the URL of a module whose default export is an
   * `AttestationPolicy`, which the runtime's thread loads, or what is expected of a software attestor. @default no evidence is
   * asked for
   */
  readonly attestation?: string | URL | SoftwarePolicyOptions
  /** The timeout of a request that names none, in milliseconds. @default 5000 */
  readonly defaultTimeout?: number
}

const names: OptionNames<RemoteRuntimeOptions> = {
  ...runtimeNames,
  url: true,
  enclavePublicKey: true,
  callerSecretKey: true,
  attestation: true,
  defaultTimeout: true,
}

/** Makes a runtime whose enclave is a remote process, which `sluice enclave` starts. */
export function createRemoteRuntime<Config = unknown, Report = never>(
  options: RemoteRuntimeOptions<Config, Report>,
): Runtime<Config, Report> {
  const {
    url,
    enclavePublicKey,
    callerSecretKey,
    attestation,
    defaultTimeout: given,
  } = checkOptions('createRemoteRuntime', options, names)
  parsePublicKey('enclavePublicKey', enclavePublicKey)
  parseKey('callerSecretKey', callerSecretKey)
  const defaultTimeout = checkNumber('defaultTimeout', given ?? 5000, { min: 1, max: MAX_TIMER })
  const settings: RemoteSettings = {
    url: checkURL('url', url, ['http:', 'https:']),
    enclavePublicKey,
    callerSecretKey,
    ...(attestation === undefined ? {} : { attestation: checkPolicy(attestation) }),
  }
  return createRuntime({
    file: new URL('../remote/remote-thread.js', import.meta.url),
    settings,
    options,
    defaultTimeout,
  })
}
