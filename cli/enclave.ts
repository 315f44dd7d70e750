import { readFileSync, writeFileSync } from 'node:fs'
import type { Command } from 'commander'
import { createKeys, startEnclaveServer } from '../confidential-http/index.js'
import { asError, ValidationError } from '../core/errors.js'
import type { Log } from '../core/types.js'
import { openVault } from '../local/index.js'
import { refuseInstrumentation } from './instrumentation.js'
import { number } from './number.js'
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
      try {
        writeFileSync(file, `${secretKey}\n`, { flag: 'wx', mode: 0o600 })
      } catch (thrown) {
        throw new ValidationError(`${file} was not written: ${asError(thrown).message}`)
      }
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
    .option(
      '--allow-instrumentation',
      'start although NODE_DEBUG, a preload or an inspector could see the secrets',
    )
    .action(async (options: EnclaveCommandOptions) => {
      const { key, vault, port, host, caller, maxTimeout } = options
      if (options.allowInstrumentation !== true)
        refuseInstrumentation(process.env, process.execArgv)
      const { owner } = await openVault(vault)
      const server = await startEnclaveServer({
        vault,
        key: readKey(key),
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
  readonly allowInstrumentation?: boolean
}

const line = (level: string) => (message: string) =>
  void process.stderr.write(`${new Date().toISOString()} ${level} ${message}\n`)

const standardError: Log = { info: line('info'), warn: line('warn'), error: line('error') }

function readKey(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (thrown) {
    throw new ValidationError(`--key: ${asError(thrown).message}`)
  }
}

function splitCaller(text: string, owner: string): readonly [string, string] {
  const [key = '', named = owner] = text.split('=')
  return [key, named]
}

function collect(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}
