import { checkNumber, checkOptions, checkURL, MAX_TIMER } from '../../core/options.js'
import { parseKey } from '../../crypto/hex-key.js'
import { parsePublicKey } from '../keys.js'
import type { RemoteSettings } from '../remote/ask-enclave.js'
import { threadFile } from '../thread/thread-file.js'
import { createRuntime, type Runtime, type RuntimeOptions } from './runtime.js'
import { WORKFLOW_OPTIONS } from './workflow.js'

/** Options of `createRemoteRuntime`. */
export interface RemoteRuntimeOptions<Config = unknown, Report = never>
  extends RuntimeOptions<Config, Report> {
  /** Where the enclave listens. */
  readonly url: string
  /** The enclave's public key, 64 hexadecimal digits: the one thing that says it is the right enclave. */
  readonly enclaveKey: string
  /** The caller's own secret key, 64 hexadecimal digits; the enclave knows its public key. */
  readonly callerKey: string
  /** The timeout of a request that names none, in milliseconds. @default 5000 */
  readonly defaultTimeout?: number
}

/** A runtime whose enclave is a process elsewhere, which `sluice enclave` starts. */
export function createRemoteRuntime<Config = unknown, Report = never>(
  options: RemoteRuntimeOptions<Config, Report>,
): Runtime<Config, Report> {
  const {
    url,
    enclaveKey,
    callerKey,
    defaultTimeout: given,
  } = checkOptions('options', options, [
    'url',
    'enclaveKey',
    'callerKey',
    'defaultTimeout',
    'logging',
    'memoryMb',
    ...WORKFLOW_OPTIONS,
  ])
  parsePublicKey('enclaveKey', enclaveKey)
  parseKey('callerKey', callerKey)
  const defaultTimeout = checkNumber('defaultTimeout', given ?? 5000, { min: 1, max: MAX_TIMER })
  const settings: RemoteSettings = {
    url: checkURL('url', url, ['http:', 'https:']),
    enclaveKey,
    callerKey,
  }
  return createRuntime({
    file: threadFile('confidential-http/remote/remote-thread.js'),
    settings,
    options,
    defaultTimeout,
  })
}
