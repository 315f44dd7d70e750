import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Vault } from '@sluice/confidential-http/vault'
import { ValidationError } from 'sluice/core'
import { formatKey, parseKey, shownKey } from 'sluice/internal'
import { type AddCommand, defineCommand, given } from '../command.js'
import { readFile } from '../input/files.js'
import { protectSecrets } from '../instrumentation.js'
import { say, stopped, tell } from '../io.js'
import { bold } from '../output/colours.js'
import { standardError } from '../output/log.js'
import { metricsOptions, startMetrics } from '../output/metrics.js'
import { vaultOptions } from './vault-options.js'

/** Adds `keygen`. */
export const addKeygenCommand: AddCommand = defineCommand({
  name: 'keygen',
  arguments: { '<file>': '' },
  examples: ['sluice keygen enclave.key'],
  async run(_options, io, { file }) {
    const { createKeys, writeKeyFile } = await import('@sluice/confidential-http')
    const { publicKey, secretKey } = createKeys()
    writeKeyFile(file, secretKey)
    // Nobody could use a secret key whose public key is lost.
    io.stdout.write(`${publicKey}\n`, error => {
      if (error) rmSync(file, { force: true })
    })
  },
})

/** Adds `enclave`. */
export const addEnclaveCommand: AddCommand = defineCommand({
  name: 'enclave',
  runsUntilStopped: true,
  options: {
    key: { is: 'file', help: 'the file of its secret key, made by keygen', required: true },
    caller: {
      is: 'list',
      value: 'key[=owner]',
      help: 'the public key of a caller, and the owner of the secrets it uses (default: the owner of the vault); may be repeated',
    },
    callers: {
      is: 'file',
      help: 'a JSON file of callers and owners in place of --caller, which may be changed meanwhile',
    },
    ...vaultOptions,
    port: { is: 'number', help: 'the port', default: 7443 },
    host: { is: 'address', help: 'the address to listen on', default: '127.0.0.1' },
    maxTimeout: {
      is: 'number',
      value: 'ms',
      help: 'the longest timeout a request may ask for',
      default: 10_000,
    },
    maxConnections: { is: 'number', help: 'the largest number of connections', default: 1024 },
    maxConnectionsPerAddress: {
      is: 'number',
      help: 'how many of them from one address (default: 256); behind a reverse proxy, as many as --max-connections',
    },
    requestsPerSecond: {
      is: 'number',
      help: 'how many requests of a caller, on average (default: no limit)',
    },
    requestsAtOnce: { is: 'number', help: 'how many requests of a caller', default: 64 },
    bytesPerSecond: {
      is: 'number',
      help: 'how many bytes of a caller’s requests and answers, on average (default: no limit)',
    },
    renewAfterRequests: {
      is: 'number',
      help: 'replace the thread that has the secrets, and its memory, after so many requests',
      default: 10_000,
    },
    renewAfterQuiet: {
      is: 'number',
      value: 'ms',
      help: 'and after so many milliseconds without a request',
      default: 60_000,
    },
    audit: { is: 'file', help: 'record each request in this file; sluice audit verify reads it' },
    requirePolicies: { help: 'refuse secrets that were stored without a policy' },
    policyHeaders: {
      value: 'how',
      choices: ['refuse', 'warn'],
      help: 'refuse requests with a header that the policy of their secret does not allow, or warn once in the log',
      default: 'refuse',
    },
    loopback: { help: 'allow requests to this machine too' },
    privateNetworks: { help: 'allow requests to private networks too' },
    ...metricsOptions,
    allowInstrumentation: {
      help: 'start even if NODE_DEBUG, a preload, an inspector or an engine of OpenSSL can see the secrets',
    },
  },
  examples: ['sluice enclave --key enclave.key --caller 1a2b… --audit audit.log'],
  async run(options, io) {
    const { maxTimeout, audit, insecurePermissions = false, rollbackState, vault } = options
    const { requestsAtOnce, requestsPerSecond, bytesPerSecond } = options
    const { host, port, maxConnections, maxConnectionsPerAddress, requirePolicies } = options
    const { policyHeaders, loopback = false, privateNetworks = false } = options
    const log = standardError(io)
    protectSecrets(options.allowInstrumentation, io, log)
    // First, so that nothing runs if its port is in use.
    await using metrics = await startMetrics(options, io)
    const { openVault } = await import('@sluice/confidential-http/vault')
    const { readKeyFile, startEnclaveServer } = await import('@sluice/confidential-http')
    const opened = await openVault(vault, { insecurePermissions, ...given({ rollbackState }) })
    const server = await startEnclaveServer({
      ...{ vault, host, port, maxConnections, policyHeaders, insecurePermissions, log },
      ...given({ rollbackState, maxConnectionsPerAddress, requirePolicies }),
      secretKey: readKeyFile(options.key, { insecurePermissions }),
      callers: whichCallers(options.caller, options.callers, opened.owner),
      network: { loopback, privateNetworks },
      limits: { maxTimeout, defaultTimeout: Math.min(5000, maxTimeout) },
      callerLimits: { requestsAtOnce, ...given({ requestsPerSecond, bytesPerSecond }) },
      renewAfter: { requests: options.renewAfterRequests, quietMs: options.renewAfterQuiet },
      ...given({ audit: audit === undefined ? undefined : { file: audit, insecurePermissions } }),
    })
    metrics.add(server.health)
    for (const weakness of weaknessesOf(opened, options)) log.warn?.(weakness)
    tell(io, bold('An enclave is running; Ctrl-C ends it'))
    say(io, `ENCLAVE_URL=${server.url}`)
    say(io, `ENCLAVE_PUBLIC_KEY=${server.publicKey}`)
    await stopped(io)
    await server.close()
  },
})

/** Lists the weaknesses of a layout: where keys and shares lie, and which checks are off. */
function weaknessesOf(
  { directory, holders }: Vault,
  { requirePolicies, rollbackState }: { requirePolicies?: boolean; rollbackState?: string },
): readonly string[] {
  const found: string[] = []
  const urls = holders.flatMap(({ url }) => (url === undefined ? [] : [new URL(url)]))
  if (urls.length === 0)
    found.push(
      'all shares of the vault’s key lie in its directory: whoever reads this directory has every secret, so the threshold protects nothing. Run holders as processes, each under a user of its own',
    )
  else if (urls.every(({ hostname }) => LOOPBACK.test(hostname)))
    found.push('all holders run on this machine: its root has every secret')
  if (existsSync(join(directory, 'writer.json')))
    found.push(
      'the writer’s key lies in the vault’s directory: whoever reads writer.json can replace every secret. Keep it on the machine on which you put secrets',
    )
  if (requirePolicies !== true)
    found.push('a secret without a policy may be sent anywhere: --require-policies refuses it')
  if (rollbackState === undefined)
    found.push('after a restart, an older copy of the vault is believed: set --rollback-state')
  return found
}

const LOOPBACK = /^(localhost|127\.[\d.]+|\[::1\])$/

/**
 * Returns the path of the file of callers. Without a file, returns an object that maps each
 * caller's key to the owner whose secrets the caller uses.
 */
function whichCallers(
  texts: readonly string[],
  file: string | undefined,
  vaultOwner: string,
): string | Readonly<Record<string, string>> {
  if ((file === undefined) === (texts.length === 0))
    throw new ValidationError('either --caller or --callers must be given')
  if (file !== undefined) {
    readFile('--callers', file)
    return file
  }
  const callers = new Map<string, string>()
  for (const text of texts) {
    const [given = '', ...owner] = text.split('=')
    const key = formatKey(parseKey('callers: each key', given.trim()))
    // If a key were given twice, only its last owner would count.
    if (callers.has(key))
      throw new ValidationError(`--caller: the key ${shownKey(key)} is named twice`)
    callers.set(key, owner.length === 0 ? vaultOwner : owner.join('='))
  }
  return Object.fromEntries(callers)
}
