import { once } from 'node:events'
import type { Command } from 'commander'
import { ValidationError } from '../core/errors.js'
import { rejectInstrumentation } from './instrumentation.js'
import { standardError } from './standard-error.js'
import type { Terminal } from './vault-command.js'
import { bold } from './view.js'

interface NodeOptions {
  readonly dir: string
  readonly listen: string
  readonly writer?: string
  readonly caller: readonly string[]
  readonly peer: readonly string[]
  readonly insecurePermissions?: boolean
  readonly allowInstrumentation?: boolean
}

/** Adds `vault node`. */
export function addNodeCommand(vault: Command, terminal: Terminal): void {
  vault
    .command('node')
    .description('run a node of a vault: a process with a share of the key')
    .requiredOption('--dir <dir>', "the node's own directory; made if it is not there")
    .option('--listen <host:port>', 'where it is asked', '127.0.0.1:7500')
    .option(
      '--writer <key>',
      "of a new node: the public key of the vault's writer, as init prints it",
    )
    .option(
      '--caller <key>',
      'of a new node: the public key of an enclave; may be repeated',
      add,
      [],
    )
    .option(
      '--peer <key>',
      'of a new node: the public key of another node; may be repeated',
      add,
      [],
    )
    .option('--insecure-permissions', 'go on even if others can read or write the files')
    .option('--allow-instrumentation', 'start even if others can see the secrets of the process')
    .action((options: NodeOptions) => runNode(options, terminal))
}

async function runNode(
  {
    dir: directory,
    listen,
    writer,
    caller: callers,
    peer: peers,
    insecurePermissions = false,
    allowInstrumentation = false,
  }: NodeOptions,
  { out, signal }: Terminal,
): Promise<void> {
  if (!allowInstrumentation) rejectInstrumentation(process.env, process.execArgv)
  const [, host, port] = /^\[?([^\]]*?)\]?:(\d{1,5})$/.exec(listen) ?? []
  if (host === undefined || host === '')
    throw new ValidationError('--listen must be an address, : and a port')
  if (writer === undefined && callers.length + peers.length > 0)
    throw new ValidationError('--writer must be given besides: both are of a new node')
  const { startVaultNode } = await import('../local/index.js')
  const node = await startVaultNode({
    directory,
    host,
    port: Number(port),
    insecurePermissions,
    ...(writer === undefined ? {} : { trust: { writer, callers, peers } }),
    log: standardError,
  })
  out.write(
    `${bold('A node is running; Ctrl-C ends it')}\nNODE_URL=${node.url}\nNODE_KEY=${node.publicKey}\n`,
  )
  if (!signal.aborted) await once(signal, 'abort')
  await node.close()
}

function add(text: string, before: readonly string[]): readonly string[] {
  return [...before, text]
}
