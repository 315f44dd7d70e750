import type { Log } from 'sluice/core'
import {
  checkFunction,
  checkNumber,
  checkOptions,
  type OptionNames,
  ValidationError,
} from 'sluice/core'
import { asyncDispose, boxKeys, formatKey, parseKey } from 'sluice/internal'
import { audit } from 'sluice/plugins/confidential-http'
import { type Attestor, FORMAT } from '../attestation/evidence.js'
import { type AuditLogOptions, openAuditLog } from '../audit/audit-log.js'
import { createEnclave } from '../enclave/enclave.js'
import { type EnclaveSettings, settingNames } from '../enclave/open-enclave.js'
import { checkRenewAfter, type RenewAfter } from '../thread/renewed-thread.js'
import { createAnswering } from './answer-request.js'
import { type CallerLimits, createCallerGuard } from './caller-limits.js'
import { createCallers } from './callers.js'
import { listen } from './listen.js'
import { Refusals } from './refusals.js'
import { EnclaveThread } from './server-thread.js'

/** Options of `startEnclaveServer`. */
export interface EnclaveServerOptions extends EnclaveSettings {
  /** The enclave's secret key, 64 hexadecimal digits; callers pin its public key. */
  readonly secretKey: string
  /**
   * The public key of each caller, and the owner whose secrets it uses; or the path of a JSON file of these, which may be changed
   * while the enclave runs.
   */
  readonly callers: { readonly [publicKey: string]: string } | string
  /** @default 0, any free one */
  readonly port?: number
  /** @default '127.0.0.1' */
  readonly host?: string
  /** The largest number of connections; of more, unproven ones are closed. @default 1024 */
  readonly maxConnections?: number
  /**
   * The largest number of connections from one address, or one IPv6 network of 64 bits. Behind a reverse proxy all connections
   * come from its address, so allow it as many as `maxConnections`. @default 256, or `maxConnections` if that is less
   */
  readonly maxConnectionsPerAddress?: number
  /** What each caller may ask. @default 64 requests at once */
  readonly callerLimits?: CallerLimits
  /** Makes evidence of what the enclave runs, for callers that ask for it. @default none */
  readonly attestor?: Attestor
  /** Records each request in a file, whatever the stack. @default no record */
  readonly audit?: AuditLogOptions
  /**
   * When the enclave's thread, whose memory may still hold secrets, is replaced by a new one. No request waits for it.
   * @default after 10000 requests, and after a quiet minute
   */
  readonly renewAfter?: RenewAfter
  /** Receives the enclave's log. No line holds a secret. */
  readonly log?: Log
}

const names: OptionNames<EnclaveServerOptions> = {
  ...settingNames,
  secretKey: true,
  callers: true,
  port: true,
  host: true,
  maxConnections: true,
  maxConnectionsPerAddress: true,
  callerLimits: true,
  attestor: true,
  audit: true,
  renewAfter: true,
  log: true,
}

/** A running enclave server. */
export interface EnclaveServer extends AsyncDisposable {
  /** The URL that callers use: `http://HOST:PORT`. */
  readonly url: string
  /** The key that callers pin: 64 hexadecimal digits. */
  readonly publicKey: string
  /** Ends every request and connection, and the server. Idempotent. */
  close(): Promise<void>
}

/**
 * Runs an enclave for remote callers. Requests arrive sealed to its boot key and answers leave sealed to the caller's, so plain
 * HTTP suffices. Rejects unknown callers and replayed requests.
 */
export async function startEnclaveServer(given: EnclaveServerOptions): Promise<EnclaveServer> {
  const options = checkOptions('startEnclaveServer', given, names)
  const keys = boxKeys(parseKey('secretKey', options.secretKey))
  const callers = createCallers(options.callers, {
    log: options.log,
    insecurePermissions: options.insecurePermissions === true,
  })
  const port = checkNumber('port', options.port ?? 0, { min: 0, max: 65_535, whole: true })
  const max = checkNumber('maxConnections', options.maxConnections ?? 1024, { min: 1, whole: true })
  const maxPerAddress = checkNumber(
    'maxConnectionsPerAddress',
    options.maxConnectionsPerAddress ?? Math.min(256, max),
    { min: 1, max, whole: true },
  )
  const attestor = checkAttestor(options.attestor)
  const guard = createCallerGuard(options.callerLimits)
  const renewAfter = checkRenewAfter(options.renewAfter)
  const { log = {}, host = '127.0.0.1' } = options
  const { maxRequestBytes = 125_000 } = options.limits ?? {}
  // A body grows in base64, and the envelope needs room.
  const maxSealedBytes = 2 * maxRequestBytes + 65_536
  const records = options.audit === undefined ? undefined : await openAuditLog(options.audit)
  let thread: EnclaveThread | undefined
  try {
    const above = records === undefined ? [] : [audit({ log: records })]
    const running = new EnclaveThread(
      { callerSecretKey: options.secretKey, ...options },
      renewAfter,
      log,
    )
    const enclave = createEnclave({ plugins: [...above, running.plugin()] })
    if (options.log !== undefined) enclave.listen(options.log)
    thread = running
    await running.whenReady()
    const both = { enclave: keys, boot: boxKeys() }
    const refusals = records === undefined ? undefined : new Refusals(records, log)
    const answering = createAnswering({
      enclave,
      keys: both,
      callers,
      limits: guard,
      attestor,
      refusals,
      log,
    })
    const limits = { max, maxPerAddress, maxSealedBytes }
    const { url, end } = await listen({ host, port }, answering, limits, log)
    async function close(): Promise<void> {
      enclave.close()
      await end()
      await answering.close()
      await running.end()
      await refusals?.end()
      await records?.close()
      keys.secretKey.fill(0)
    }
    return { url, publicKey: formatKey(keys.publicKey), close, [asyncDispose]: close }
  } catch (thrown) {
    await thread?.end()
    await records?.close()
    throw thrown
  }
}

function checkAttestor(attestor: Attestor | undefined): Attestor | undefined {
  if (attestor === undefined) return undefined
  checkFunction('attestor.attest', attestor?.attest)
  if (typeof attestor.format !== 'string' || !FORMAT.test(attestor.format))
    throw new ValidationError(
      'attestor.format must be 1 to 64 lower-case letters, digits, dots and hyphens',
    )
  return attestor
}
