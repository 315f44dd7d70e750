import type { EnclaveServerOptions } from '@sluice/confidential-http'
import type { Command } from 'commander'
import { ValidationError } from 'sluice/core'
import { formatKey, parseKey, shownKey } from 'sluice/internal'
import { addExamples, collect, number } from '../input/arguments.js'
import { rejectInspector, rejectInstrumentation } from '../instrumentation.js'
import { type IO, say, stopped } from '../io.js'
import { bold } from '../output/colours.js'
import { standardError } from '../output/log.js'
import { insecurePermissionsText, rollbackStateText } from '../vault/command.js'

/** Adds `enclave` and `keygen`. */
export function addEnclaveCommands(program: Command, io: IO): void {
  addExamples(program.command('keygen'), 'sluice keygen enclave.key')
    .description(
      'make the key pair of an enclave or of a caller: write the secret key to a file, print the public key',
    )
    .argument('<file>')
    .action(async (file: string) => {
      const { createKeys, writeKeyFile } = await import('@sluice/confidential-http')
      const { publicKey, secretKey } = createKeys()
      writeKeyFile(file, secretKey)
      say(io, publicKey)
    })

  addExamples(
    program.command('enclave'),
    'sluice enclave --key enclave.key --caller 1a2b… --audit audit.log',
  )
    .description('run an enclave for remote callers, with a vault of this machine')
    .requiredOption('--key <file>', 'the file of its secret key, made by keygen')
    .option(
      '--caller <key[=owner]>',
      'the public key of a caller, and the owner of the secrets it uses (default: the owner of the vault); may be repeated',
      collect,
      [],
    )
    .option(
      '--callers <file>',
      'a JSON file of callers and owners in place of --caller, which may be changed meanwhile',
    )
    .option('--vault <dir>', 'its directory', './vault')
    .option('--port <n>', 'the port', number, 7443)
    .option('--host <address>', 'the address to listen on', '127.0.0.1')
    .option('--max-timeout <ms>', 'the longest timeout a request may ask for', number, 10_000)
    .option('--max-connections <n>', 'the largest number of connections', number, 1024)
    .option(
      '--max-connections-per-address <n>',
      'how many of them from one address (default: 256); behind a reverse proxy, as many as --max-connections',
      number,
    )
    .option(
      '--requests-per-second <n>',
      'how many requests of a caller, on average (default: no limit)',
      number,
    )
    .option('--requests-at-once <n>', 'how many requests of a caller', number, 64)
    .option(
      '--bytes-per-second <n>',
      'how many bytes of a caller’s requests and answers, on average (default: no limit)',
      number,
    )
    .option(
      '--renew-after-requests <n>',
      'replace the thread that has the secrets, and with it what its memory holds of them, after so many requests',
      number,
      10_000,
    )
    .option(
      '--renew-after-quiet <ms>',
      'and after so many milliseconds without a request',
      number,
      60_000,
    )
    .option('--audit <file>', 'record each request in this file; sluice audit verify reads it')
    .option('--require-policies', 'refuse secrets that were stored without a policy')
    .option('--loopback', 'allow requests to this machine too')
    .option('--private-networks', 'allow requests to private networks too')
    .option('--insecure-permissions', insecurePermissionsText)
    .option('--rollback-state <file>', rollbackStateText)
    .option(
      '--allow-instrumentation',
      'start even if NODE_DEBUG, a preload, an inspector or an engine of OpenSSL can see the secrets',
    )
    .action((options: EnclaveCommandOptions) => runEnclave(options, io))
}

interface EnclaveCommandOptions
  extends Pick<
    EnclaveServerOptions,
    'vault' | 'rollbackState' | 'port' | 'host' | 'maxConnections' | 'maxConnectionsPerAddress'
  > {
  readonly key: string
  readonly caller: readonly string[]
  readonly callers?: string
  readonly maxTimeout: number
  readonly requestsPerSecond?: number
  readonly requestsAtOnce: number
  readonly bytesPerSecond?: number
  readonly renewAfterRequests: number
  readonly renewAfterQuiet: number
  readonly audit?: string
  readonly requirePolicies?: boolean
  readonly loopback?: boolean
  readonly privateNetworks?: boolean
  readonly insecurePermissions?: boolean
  readonly allowInstrumentation?: boolean
}

async function runEnclave(
  {
    key,
    caller,
    callers,
    maxTimeout,
    requestsPerSecond,
    requestsAtOnce,
    bytesPerSecond,
    renewAfterRequests,
    renewAfterQuiet,
    audit,
    loopback = false,
    privateNetworks = false,
    insecurePermissions = false,
    allowInstrumentation = false,
    ...others
  }: EnclaveCommandOptions,
  io: IO,
): Promise<void> {
  const log = standardError(io)
  if (!allowInstrumentation) {
    rejectInstrumentation(io.env, process.execArgv)
    rejectInspector(log)
  }
  const { openVault } = await import('@sluice/confidential-http/vault')
  const { readKeyFile, startEnclaveServer } = await import('@sluice/confidential-http')
  const { owner } = await openVault(others.vault, {
    insecurePermissions,
    ...(others.rollbackState === undefined ? {} : { rollbackState: others.rollbackState }),
  })
  const server = await startEnclaveServer({
    ...others,
    insecurePermissions,
    secretKey: readKeyFile(key, { insecurePermissions }),
    callers: whichCallers(caller, callers, owner),
    network: { loopback, privateNetworks },
    limits: { maxTimeout, defaultTimeout: Math.min(5000, maxTimeout) },
    callerLimits: {
      requestsAtOnce,
      ...(requestsPerSecond === undefined ? {} : { requestsPerSecond }),
      ...(bytesPerSecond === undefined ? {} : { bytesPerSecond }),
    },
    renewAfter: { requests: renewAfterRequests, quietMs: renewAfterQuiet },
    ...(audit === undefined ? {} : { audit: { file: audit, insecurePermissions } }),
    log,
  })
  say(io, bold('An enclave is running; Ctrl-C ends it'))
  say(io, `ENCLAVE_URL=${server.url}`)
  say(io, `ENCLAVE_PUBLIC_KEY=${server.publicKey}`)
  await stopped(io)
  await server.close()
}

/** The callers of the options, or the path of a file of callers. */
function whichCallers(
  texts: readonly string[],
  file: string | undefined,
  vaultOwner: string,
): string | Readonly<Record<string, string>> {
  if ((file === undefined) === (texts.length === 0))
    throw new ValidationError('either --caller or --callers must be given')
  return file ?? readCallers(texts, vaultOwner)
}

/** Reads the owner of each caller's key. Rejects a repeated key, which would silently use the secrets of the last owner. */
function readCallers(
  texts: readonly string[],
  vaultOwner: string,
): Readonly<Record<string, string>> {
  const callers = new Map<string, string>()
  for (const text of texts) {
    const [given = '', ...owner] = text.split('=')
    const key = formatKey(parseKey('callers: each key', given.trim()))
    if (callers.has(key))
      throw new ValidationError(`--caller: the key ${shownKey(key)} is named twice`)
    callers.set(key, owner.length === 0 ? vaultOwner : owner.join('='))
  }
  return Object.fromEntries(callers)
}
