import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { ValidationError } from 'sluice/core'
import { addExamples, collect, number } from '../input/arguments.js'
import { rejectInspector, rejectInstrumentation } from '../instrumentation.js'
import { type IO, say, stopped } from '../io.js'
import { bold } from '../output/colours.js'
import { standardError } from '../output/log.js'

interface HolderOptions {
  readonly dir: string
  readonly listen: string
  readonly writer?: string
  readonly caller: readonly string[]
  readonly peer: readonly string[]
  readonly minThreshold?: number
  readonly insecurePermissions?: boolean
  readonly allowInstrumentation?: boolean
}

/** Adds `vault holder`. */
export function addHolderCommand(vault: Command, io: IO): void {
  addExamples(
    vault.command('holder'),
    'sluice vault holder --dir holder1 --listen 127.0.0.1:7500 --writer 4d5e… --caller 1a2b…',
  )
    .description('run a holder of a vault: a process with a share of the key')
    .requiredOption('--dir <dir>', "the holder's own directory; made if it is not there")
    .option('--listen <host:port>', 'where it is asked', '127.0.0.1:7500')
    .option(
      '--writer <key>',
      "of a new holder: the public key of the vault's writer, as init prints it",
    )
    .option(
      '--caller <key>',
      'of a new holder: the public key of an enclave; may be repeated',
      collect,
      [],
    )
    .option(
      '--peer <key>',
      'of a new holder: the public key of another holder; may be repeated',
      collect,
      [],
    )
    .option(
      '--min-threshold <n>',
      'of a new holder: the least threshold that it deals its share for (default: that of its first share)',
      number,
    )
    .option('--insecure-permissions', 'go on even if others can read or write the files')
    .option('--allow-instrumentation', 'start even if others can see the secrets of the process')
    .action((options: HolderOptions) => runHolder(options, io))
}

async function runHolder(
  {
    dir: directory,
    listen,
    writer,
    caller: callers,
    peer: peers,
    minThreshold,
    insecurePermissions = false,
    allowInstrumentation = false,
  }: HolderOptions,
  io: IO,
): Promise<void> {
  const log = standardError(io)
  if (!allowInstrumentation) {
    rejectInstrumentation(io.env, process.execArgv)
    rejectInspector(log)
  }
  const [, host, port] = /^\[?([^\]]*?)\]?:(\d{1,5})$/.exec(listen) ?? []
  if (host === undefined || host === '')
    throw new ValidationError('--listen must be an address, : and a port')
  if (writer === undefined && (callers.length + peers.length > 0 || minThreshold !== undefined))
    throw new ValidationError('--writer must be given besides: all of them are of a new holder')
  if (writer === undefined && !existsSync(join(directory, 'holder.json')))
    throw new ValidationError(
      `--writer is required for a new holder: ${directory} has no holder.json`,
    )
  const { startVaultHolder } = await import('@sluice/confidential-http/vault')
  const holder = await startVaultHolder({
    directory,
    host,
    port: Number(port),
    insecurePermissions,
    ...(writer === undefined
      ? {}
      : {
          trust: {
            ...{ writer, callers, peers },
            ...(minThreshold === undefined ? {} : { minThreshold }),
          },
        }),
    log,
  })
  say(io, bold('A holder is running; Ctrl-C ends it'))
  say(io, `HOLDER_URL=${holder.url}`)
  say(io, `HOLDER_KEY=${holder.publicKey}`)
  await stopped(io)
  await holder.close()
}
