import {
  type Checked,
  checkSignal,
  checkText,
  createLifetime,
  createLog,
  DataStreamsError,
  MAX_TIMER,
  number,
  optional,
  readOptions,
  type Schema,
  setUp,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import {
  asyncDispose,
  checkObject,
  checkOwner,
  checkURL,
  formatKey,
  type PermissionOptions,
  parseBoxPublicKey,
  parseKey,
  pickOptions,
} from 'sluice/internal'
import type { LimitsOptions, NetworkPolicyOptions } from 'sluice/plugins/confidential-http'
import { type LoggingConfig, logging } from 'sluice/plugins/logging'
import { checkPolicy, type SoftwarePolicyOptions } from '../attestation/software.js'
import type { CapabilityCall } from '../capability.js'
import { settingRules } from '../enclave/enclave.js'
import { durationMs, parseDuration } from '../request/duration.js'
import { normalizeRequest } from '../request/normalize-request.js'
import { checkRenewAfter, type RenewAfter, RenewedThread } from '../thread/renewed-thread.js'
import type { ReleasedSecret } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import {
  createWorkflowRuntime,
  type RuntimeReply,
  type WorkflowOptions,
  type WorkflowRuntime,
  workflowRules,
} from './workflow.js'

/**
 * Carries out confidential requests in its own thread. Pass it to `sendRequest`, or to the handler
 * of a whole workflow.
 */
export interface Runtime<Config = unknown, Report = never>
  extends WorkflowRuntime<Config, Report>,
    AsyncDisposable {
  /** Ends every request and the thread. Idempotent. */
  close(): Promise<void>
}

/** The options of every runtime. */
export interface RuntimeOptions<Config = unknown, Report = never>
  extends WorkflowOptions<Config, Report> {
  /**
   * Where log lines are written, and from which level on. No line contains a secret.
   * @default no log
   */
  readonly logging?: LoggingConfig
  /** The limit of the heap of the runtime's thread, in megabytes. @default 128 */
  readonly memoryMb?: number
}

const runtimeRules = {
  ...workflowRules,
  logging: unchecked<LoggingConfig | undefined>,
  memoryMb: withDefault(128, number({ min: 16, max: 65_536 })),
} satisfies Schema<RuntimeOptions<unknown, unknown>>

/** Options of `createLocalRuntime`. */
export interface LocalRuntimeOptions<Config = unknown, Report = never>
  extends RuntimeOptions<Config, Report>,
    PermissionOptions {
  /** The vault, or the path of its directory. */
  readonly vault:
    | string
    | {
        /** The directory of the vault, as `openVault` and `createVault` return it. */
        readonly directory: string
      }
  /** The owner of the secrets that may be used: an address. @default the owner of the vault */
  readonly owner?: string
  /** Where requests may be sent. @default public addresses and this machine's own, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /**
   * Refuses secrets that were stored without a policy. Otherwise such secrets may be sent anywhere,
   * with a warning.
   * @default false
   */
  readonly requirePolicies?: boolean
  /**
   * What to do if a request has a header that the policy of its secret does not allow. With `warn`,
   * the request is made, and a warning is logged once for each secret and header.
   * @default 'refuse'
   */
  readonly policyHeaders?: 'refuse' | 'warn'
  /** The limits of size and time. */
  readonly limits?: LimitsOptions
  /**
   * The URL of a module whose default export makes the enclave's stack, as `confidentialPreset`
   * does. The enclave's thread loads the module. @default `confidentialPreset`
   */
  readonly stack?: string | URL
  /**
   * A file that remembers the newest state of the vault. An older state is rejected, even after a
   * restart of this process. @default none
   */
  readonly rollbackState?: string
  /**
   * The secret key of this process, if the vault's holders are separate processes (`sluice vault
   * holder`). The holders recognise this process by it. @default none
   */
  readonly callerSecretKey?: string
  /**
   * When the enclave's thread is replaced by a new one, because its memory may still contain
   * secrets. No request waits for the replacement.
   * @default after 10000 requests, and after a quiet minute
   */
  readonly renewAfter?: RenewAfter
  /**
   * Environment variables for `stack`. Of the variables of this process, the enclave's thread gets
   * only those for proxies and certificates.
   */
  readonly env?: Readonly<Record<string, string>>
}

const localRules = {
  ...runtimeRules,
  ...settingRules,
  vault: checkVault,
  owner: optional(checkOwner),
  stack: optional(checkStack),
  env: optional(checkVariables),
  renewAfter: (_, given) => checkRenewAfter(given as RenewAfter | undefined),
} satisfies Schema<LocalRuntimeOptions<unknown, unknown>>

/**
 * Makes a runtime whose enclave is a thread of this process. That thread opens the vault and gets
 * the secrets. The calling thread never has them.
 */
export function createLocalRuntime<Config = unknown, Report = never>(
  options: LocalRuntimeOptions<Config, Report>,
): Runtime<Config, Report> {
  const given = readOptions(
    'createLocalRuntime',
    options as LocalRuntimeOptions<unknown, unknown>,
    localRules,
  )
  const { network, limits, env, renewAfter } = given
  const settings = pickOptions(given, { ...settingRules, owner: true })
  return createRuntime(given, {
    file: new URL('../enclave/enclave-thread.js', import.meta.url),
    settings: { ...settings, network: { ...network, loopback: network?.loopback ?? true } },
    env,
    renewAfter,
    defaultTimeout: limits?.defaultTimeout ?? Math.min(5000, limits?.maxTimeout ?? 5000),
  })
}

function checkVault(field: string, given: unknown): string {
  const isVault = typeof given === 'object' && given !== null
  return checkText(field, isVault ? (given as { directory?: unknown }).directory : given)
}

function checkStack(field: string, given: unknown): string {
  const url = String(given)
  if (URL.canParse(url)) return url
  throw new ValidationError(`${field} must be an absolute URL, such as new URL(…, import.meta.url)`)
}

/** Rejects variables that would let others see secrets. */
function checkVariables(field: string, given: unknown): Readonly<Record<string, string>> {
  const env = checkObject(field, given as Readonly<Record<string, string>>)
  for (const [name, value] of Object.entries(env)) {
    if (typeof value !== 'string') throw new ValidationError(`${field}.${name} must be a string`)
    if (/^NODE_(OPTIONS|DEBUG|DEBUG_NATIVE)$/i.test(name))
      throw new ValidationError(`${field}.${name} must not be set: it would let others see secrets`)
  }
  return { ...env }
}

/** Options of `createRemoteRuntime`. */
export interface RemoteRuntimeOptions<Config = unknown, Report = never>
  extends RuntimeOptions<Config, Report> {
  /** The URL of the enclave. */
  readonly url: string
  /** The enclave's public key, 64 hexadecimal digits. Only this key authenticates the enclave. */
  readonly enclavePublicKey: string
  /** The caller's secret key, 64 hexadecimal digits. The enclave knows the caller's public key. */
  readonly callerSecretKey: string
  /**
   * The policy that the enclave's evidence is checked against before anything is sent. It is the
   * URL of a module whose default export is an `AttestationPolicy`; the runtime's thread loads the
   * module. For a software attestor it may be an object with the expected values.
   * @default no evidence is asked for
   */
  readonly attestation?: string | URL | SoftwarePolicyOptions
  /** The timeout of a request that has no timeout of its own, in milliseconds. @default 5000 */
  readonly defaultTimeout?: number
}

const remoteRules = {
  ...runtimeRules,
  url: (field, given) => checkURL(field, given, ['http:', 'https:']),
  enclavePublicKey: (field, given) => formatKey(parseBoxPublicKey(field, given)),
  callerSecretKey: (field, given) => formatKey(parseKey(field, given)),
  attestation: optional(checkPolicy),
  defaultTimeout: withDefault(5000, number({ min: 1, max: MAX_TIMER })),
} satisfies Schema<RemoteRuntimeOptions<unknown, unknown>>

/** Makes a runtime whose enclave is a remote process, which `sluice enclave` starts. */
export function createRemoteRuntime<Config = unknown, Report = never>(
  options: RemoteRuntimeOptions<Config, Report>,
): Runtime<Config, Report> {
  const given = readOptions(
    'createRemoteRuntime',
    options as RemoteRuntimeOptions<unknown, unknown>,
    remoteRules,
  )
  const names = { url: true, enclavePublicKey: true, callerSecretKey: true, attestation: true }
  return createRuntime(given, {
    file: new URL('../remote/remote-thread.js', import.meta.url),
    settings: pickOptions(given, names),
    defaultTimeout: given.defaultTimeout,
  })
}

/** The program and the settings of a runtime's thread. */
interface RuntimeThread {
  readonly file: URL
  readonly settings: object
  /** Environment variables of the thread. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** The timeout of a request that has no timeout of its own, in milliseconds. */
  readonly defaultTimeout: number
  /** When the thread is replaced. @default only when it has died */
  readonly renewAfter?: Required<RenewAfter>
}

/** Milliseconds beyond the timeout of a request after which its thread must show that it lives. */
const GRACE = 700

/** For a thread that never has a secret, so that it need not be replaced. */
const NEVER: Required<RenewAfter> = { requests: Number.POSITIVE_INFINITY, quietMs: MAX_TIMER }

/**
 * Starts the thread at once, so that it is ready for the first request. If the thread dies, another
 * one is started.
 */
function createRuntime<Config, Report>(
  options: Checked<typeof runtimeRules>,
  { defaultTimeout, renewAfter = NEVER, ...program }: RuntimeThread,
): Runtime<Config, Report> {
  const { log, listen } = createLog()
  const life = createLifetime()
  setUp([logging(options.logging)], { stack: [], log, listen, life })
  const thread = new RenewedThread({ ...program, memoryMb: options.memoryMb, log }, renewAfter)

  function checkOpen(): void {
    if (life.isOver) throw life.reason
  }

  function send(call: CapabilityCall): RuntimeReply {
    checkOpen()
    const signal = checkSignal('signal', call.signal)
    signal?.throwIfAborted()
    const message = normalizeRequest(call.payload)
    const { timeout = parseDuration('defaultTimeout', `${defaultTimeout}ms`) } = message.request
    const request = { ...message, request: { ...message.request, timeout } }
    const limit = durationMs(timeout) + GRACE
    return thread.send<HTTPResponse>({ type: 'request', request }, limit, { signal })
  }

  const workflow = createWorkflowRuntime<Config, Report>(options, {
    send,
    readSecrets(names) {
      checkOpen()
      const question = { type: 'secrets', names, timeout: defaultTimeout } as const
      return thread.send<readonly ReleasedSecret[]>(question, defaultTimeout + GRACE).result
    },
    log,
  })

  function close(): Promise<void> {
    life.end(closed())
    return thread.end(closed())
  }
  return { ...workflow, close, [asyncDispose]: close }
}

function closed(): DataStreamsError {
  const error = new DataStreamsError('the runtime was closed', { code: 'CLOSED' })
  return Object.assign(error, { mayHaveBeenSent: false })
}
