import type { Command } from 'commander'
import { createKeys, readKeyFile, startEnclaveServer } from '../confidential-http/index.js'
import { writeKeyFile } from '../confidential-http/key-file.js'
import type { Log } from '../core/types.js'
import { openVault } from '../local/index.js'
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
    .action((file: string) => {
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
    .option('--loopback', 'let requests go to this machine too')
    .option('--private-networks', 'let requests go to private networks too')
    .option('--insecure-permissions', insecurePermissionsText)
    .option(
      '--allow-instrumentation',
      'start although NODE_DEBUG, a preload or an inspector could see the secrets',
    )
    .action(async (options: EnclaveCommandOptions) => {
      const { key, vault, port, host, caller, maxTimeout } = options
      if (options.allowInstrumentation !== true)
        refuseInstrumentation(process.env, process.execArgv)
      const insecurePermissions = options.insecurePermissions === true
      const { owner } = await openVault(vault, { insecurePermissions })
      const server = await startEnclaveServer({
        vault,
        insecurePermissions,
        key: readKeyFile(key, { insecurePermissions }),
        callers: Object.fromEntries(caller.map(text => splitCaller(text, owner))),
        port,
        host,
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
  readonly loopback?: boolean
  readonly privateNetworks?: boolean
  readonly insecurePermissions?: boolean
  readonly allowInstrumentation?: boolean
}

const line = (level: string) => (message: string) =>
  void process.stderr.write(`${new Date().toISOString()} ${level} ${message}\n`)

const standardError: Log = { info: line('info'), warn: line('warn'), error: line('error') }

function splitCaller(text: string, owner: string): readonly [string, string] {
  const [key = '', named = owner] = text.split('=')
  return [key, named]
}

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}
