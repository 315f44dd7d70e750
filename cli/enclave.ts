import type { Command } from 'commander'
import { ValidationError } from '../core/errors.js'
import type { Log } from '../core/log.js'
import { formatKey, parseKey, shownKey } from '../crypto/hex-key.js'
import { refuseInstrumentation } from './instrumentation.js'
import { number } from './number.js'
import { insecurePermissionsText } from './vault-commands.js'
import { bold } from './view.js'

/** Adds `enclave` and `keygen`. */
export function addEnclaveCommands(program: Command, signal: AbortSignal): void {
  program
    .command('keygen')
    .description(
      'make the key of an enclave or of a caller: writes it to a file, prints its public half',
    )
    .argument('<file>')
    .action(async (file: string) => {
      const { createKeys } = await import('../confidential-http/index.js')
      const { writeKeyFile } = await import('../confidential-http/key-file.js')
      const { publicKey, secretKey } = createKeys()
      writeKeyFile(file, secretKey)
      process.stdout.write(`${publicKey}\n`)
    })

  program
    .command('enclave')
    .description('run an enclave for callers elsewhere, before a vault of this machine')
    .requiredOption('--key <file>', 'the file of its key, as keygen makes it')
    .requiredOption(
      '--caller <key[=owner]>',
      'the public key of one who may ask, and whose secrets it uses (the vault’s owner otherwise); may be repeated',
      collect,
      [],
    )
    .option('--vault <dir>', 'its directory', './vault')
    .option('--port <n>', 'the port', number, 7443)
    .option('--host <address>', 'the address to listen on', '127.0.0.1')
    .option('--max-timeout <ms>', 'the longest timeout a request may ask for', number, 10_000)
    .option('--max-connections <n>', 'how many connections are held at once', number, 1024)
    .option(
      '--max-connections-per-address <n>',
      'how many of them from one address (256 otherwise); behind a reverse proxy, as many as there are',
      number,
    )
    .option('--loopback', 'let requests go to this machine too')
    .option('--private-networks', 'let requests go to private networks too')
    .option('--insecure-permissions', insecurePermissionsText)
    .option(
      '--allow-instrumentation',
      'start although NODE_DEBUG, a preload, an inspector or an engine of OpenSSL could see the secrets',
    )
    .action(async (options: EnclaveCommandOptions) => {
      const { key, vault, port, host, caller, maxTimeout } = options
      if (options.allowInstrumentation !== true)
        refuseInstrumentation(process.env, process.execArgv)
      const { openVault } = await import('../local/index.js')
      const { readKeyFile, startEnclaveServer } = await import('../confidential-http/index.js')
      const insecurePermissions = options.insecurePermissions === true
      const { owner } = await openVault(vault, { insecurePermissions })
      const server = await startEnclaveServer({
        vault,
        insecurePermissions,
        key: readKeyFile(key, { insecurePermissions }),
        callers: readCallers(caller, owner),
        port,
        host,
        maxConnections: options.maxConnections,
        ...(options.maxConnectionsPerAddress === undefined
          ? {}
          : { maxConnectionsPerAddress: options.maxConnectionsPerAddress }),
        network: {
          loopback: options.loopback === true,
          privateNetworks: options.privateNetworks === true,
        },
        limits: { maxTimeout, defaultTimeout: Math.min(5000, maxTimeout) },
        log: standardError,
      })
      process.stdout.write(
        [
          bold('An enclave is running; Ctrl-C ends it'),
          `ENCLAVE_URL=${server.url}`,
          `ENCLAVE_KEY=${server.publicKey}`,
          '',
        ].join('\n'),
      )
      await new Promise<void>(resolve => {
        if (signal.aborted) resolve()
        signal.addEventListener('abort', () => resolve(), { once: true })
      })
      await server.close()
    })
}

interface EnclaveCommandOptions {
  readonly key: string
  readonly caller: readonly string[]
  readonly vault: string
  readonly port: number
  readonly host: string
  readonly maxTimeout: number
  readonly maxConnections: number
  readonly maxConnectionsPerAddress?: number
  readonly loopback?: boolean
  readonly privateNetworks?: boolean
  readonly insecurePermissions?: boolean
  readonly allowInstrumentation?: boolean
}

const line = (level: string) => (message: string) =>
  void process.stderr.write(`${new Date().toISOString()} ${level} ${message}\n`)

const standardError: Log = { info: line('info'), warn: line('warn'), error: line('error') }

/** The owner of each caller's key. A key named twice is refused: it would use the secrets of the last owner silently. */
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

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}
