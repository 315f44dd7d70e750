import { env as ownEnv } from 'node:process'
import {
  checkFunction,
  checkNumber,
  DataStreamsError,
  type Log,
  number,
  optional,
  readOptions,
  type Schema,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import {
  asyncDispose,
  boxKeys,
  formatKey,
  type Health,
  parseKey,
  pickOptions,
} from 'sluice/internal'
import {
  audit,
  type ConfidentialCall,
  type ConfidentialReply,
  type EnclavePlugin,
} from 'sluice/plugins/confidential-http'
import { type Attestor, FORMAT } from '../attestation/evidence.js'
import { type AuditLogOptions, openAuditLog, watchRecords } from '../audit/audit-log.js'
import { createEnclave, type EnclaveSettings, settingRules } from '../enclave/enclave.js'
import { sentOf } from '../outcome.js'
import { checkRenewAfter, type RenewAfter, RenewedThread } from '../thread/renewed-thread.js'
import { Answering } from './answering.js'
import {
  CallerGuard,
  type CallerLimits,
  checkCallerLimits,
  createCallers,
  Refusals,
} from './callers.js'
import { type EnclaveCause, EnclaveHealth, type EnclaveState } from './enclave-health.js'
import { type ListenOptions, listenRules } from './http-server.js'
import { listen } from './listen.js'

/** Options of `startEnclaveServer`. */
export interface EnclaveServerOptions extends EnclaveSettings, ListenOptions {
  /** The enclave's secret key, 64 hexadecimal digits; callers pin its public key. */
  readonly secretKey: string
  /**
   * The public key of each caller, with the owner whose secrets that caller uses. Or the path of a
   * JSON file with the same content, which may be changed while the enclave runs.
   */
  readonly callers: { readonly [publicKey: string]: string } | string
  /**
   * The most connections. Above that, the enclave closes connections that have not brought an
   * authentic request. @default 1024
   */
  readonly maxConnections?: number
  /**
   * The most connections from one address, or from one IPv6 network of 64 bits. Behind a reverse
   * proxy all connections come from the address of the proxy. Then set this to `maxConnections`.
   * @default 256, or `maxConnections` if that is less
   */
  readonly maxConnectionsPerAddress?: number
  /** The limits of each caller's requests. @default 64 requests at once */
  readonly callerLimits?: CallerLimits
  /**
   * Makes evidence of the code that the enclave runs, for callers that ask for it. @default none
   */
  readonly attestor?: Attestor
  /** Records each request in a file, whichever plugins the stack has. @default no record */
  readonly audit?: AuditLogOptions
  /**
   * When the enclave's thread is replaced by a new one, because its memory may still contain
   * secrets. No request waits for the replacement.
   * @default after 10000 requests, and after a quiet minute
   */
  readonly renewAfter?: RenewAfter
  /** Receives the enclave's log. No line contains a secret. */
  readonly log?: Log
}

const rules = {
  ...settingRules,
  secretKey: (field, given) => formatKey(parseKey(field, given)),
  callers: unchecked<EnclaveServerOptions['callers']>,
  ...listenRules,
  maxConnections: withDefault(1024, number({ min: 1, whole: true })),
  maxConnectionsPerAddress: optional(number({ min: 1, whole: true })),
  callerLimits: (_, given) => checkCallerLimits(given as CallerLimits | undefined),
  attestor: optional(checkAttestor),
  audit: unchecked<AuditLogOptions | undefined>,
  renewAfter: (_, given) => checkRenewAfter(given as RenewAfter | undefined),
  log: withDefault({}, unchecked<Log>),
} satisfies Schema<EnclaveServerOptions>

/** A running enclave server. */
export interface EnclaveServer extends AsyncDisposable {
  /** The URL that callers use: `http://HOST:PORT`. */
  readonly url: string
  /** The key that callers pin: 64 hexadecimal digits. */
  readonly publicKey: string
  /** What is wrong with the enclave at present, and its numbers. */
  readonly health: Health<EnclaveCause>
  /** Ends every request, closes every connection, and stops the server. Idempotent. */
  close(): Promise<void>
}

/**
 * Runs an enclave for remote callers. Requests arrive sealed to the enclave's boot key, and answers
 * are sealed to a key of the caller, so plain HTTP suffices. Rejects unknown callers and replayed
 * requests.
 */
export async function startEnclaveServer(given: EnclaveServerOptions): Promise<EnclaveServer> {
  const options = readOptions('startEnclaveServer', given, rules)
  const { secretKey, host, port, maxConnections, attestor, renewAfter, log } = options
  const keys = { enclave: boxKeys(parseKey('secretKey', secretKey)), boot: boxKeys() }
  const callers = createCallers(options.callers, options)
  const maxConnectionsPerAddress = checkNumber(
    'maxConnectionsPerAddress',
    options.maxConnectionsPerAddress ?? Math.min(256, maxConnections),
    { min: 1, max: maxConnections },
  )
  // A body becomes longer in base64, and the envelope needs room.
  const maxSealedBytes = 2 * (options.limits?.maxRequestBytes ?? 125_000) + 65_536
  const settings = {
    callerSecretKey: secretKey,
    ...pickOptions(options, settingRules),
  } as EnclaveSettings
  const opened = options.audit && (await openAuditLog(options.audit))
  let answering: Answering | undefined
  const onWork = (caller: string, ms: number): void => answering?.charge(caller, ms)
  const thread = startEnclaveThread(settings, renewAfter, onWork, log)
  const read = (): EnclaveState => ({
    threads: thread.started,
    threadFailure: thread.failure,
    callersRefused: callers.refusal,
    running: answering?.running ?? 0,
  })
  const watched = new EnclaveHealth(read, log)
  const { health } = watched
  const records = opened && watchRecords(opened, health)
  try {
    const above = records === undefined ? [] : [audit({ log: records })]
    const enclave = createEnclave({ plugins: [...above, inThread(thread, settings)] })
    enclave.listen(log)
    await thread.whenReady()
    const refusals = records && new Refusals(records, log)
    const limits = new CallerGuard(options.callerLimits)
    const parts = { enclave, keys, callers, limits, attestor, refusals, watched, log }
    const serving = new Answering(parts)
    answering = serving
    const bounds = { maxConnections, maxConnectionsPerAddress, maxSealedBytes }
    const { url, end } = await listen({ host, port }, serving, bounds, watched, log)
    const { vault, insecurePermissions = false } = settings
    watched.start(read, { vault, insecurePermissions })
    async function close(): Promise<void> {
      watched.end()
      enclave.close()
      await end()
      await serving.close()
      await thread.end(closed())
      await refusals?.end()
      await records?.close()
      keys.enclave.secretKey.fill(0)
    }
    const publicKey = formatKey(keys.enclave.publicKey)
    return { url, publicKey, health, close, [asyncDispose]: close }
  } catch (thrown) {
    await thread.end(closed())
    await records?.close()
    throw thrown
  }
}

function checkAttestor(field: string, given: unknown): Attestor {
  const attestor = given as Attestor
  checkFunction(`${field}.attest`, attestor?.attest)
  if (typeof attestor.format === 'string' && FORMAT.test(attestor.format)) return attestor
  throw new ValidationError(
    `${field}.format must be 1 to 64 lower-case letters, digits, dots and hyphens`,
  )
}

/** The limit of the heap of the enclave's thread, in megabytes. Bodies are not on the heap. */
const MEMORY_MB = 512
/**
 * Milliseconds that a request may take beyond its timeout before the thread counts as hung. The
 * margin is long, because many requests may have arrived at once.
 */
const GRACE = 15_000
/** Variables that the thread does not get. They would show secrets, or preload code that could. */
const DROPPED = /^NODE_(OPTIONS|DEBUG|DEBUG_NATIVE|V8_COVERAGE)$/

/**
 * Starts the thread of an enclave. Only this thread has the secrets; the thread that listens passes
 * calls on to it.
 */
function startEnclaveThread(
  settings: EnclaveSettings,
  renewAfter: Required<RenewAfter>,
  onWork: (caller: string, ms: number) => void,
  log: Log,
): RenewedThread {
  const env = Object.fromEntries(
    Object.entries(ownEnv).filter(([name]) => !DROPPED.test(name)),
  ) as Record<string, string>
  const file = new URL('../enclave/enclave-thread.js', import.meta.url)
  return new RenewedThread({ file, settings, memoryMb: MEMORY_MB, env, onWork, log }, renewAfter)
}

/** The lowest layer in the thread that listens. The layers below it run in the enclave's thread. */
function inThread(thread: RenewedThread, { limits = {} }: EnclaveSettings): EnclavePlugin {
  const { maxTimeout = 10_000, defaultTimeout = Math.min(5000, maxTimeout) } = limits
  async function carryOut(call: ConfidentialCall): Promise<ConfidentialReply> {
    // The layers above have set no headers and no rules.
    const { headers, signal, released, policies, connection, onConnected, scope, ...fields } = call
    const timeout = Math.min(call.timeout ?? defaultTimeout, maxTimeout) + GRACE
    const options = { signal, awaitsOutcome: true, onConnected }
    try {
      return await thread
        .send<ConfidentialReply>({ type: 'call', call: fields }, timeout, options)
        .resultAsync()
    } catch (thrown) {
      if (sentOf(thrown)) onConnected?.()
      throw signal.aborted ? signal.reason : thrown
    }
  }
  return { name: 'thread', call: () => carryOut }
}

function closed(): DataStreamsError {
  return new DataStreamsError('the enclave was closed', { code: 'CLOSED' })
}
