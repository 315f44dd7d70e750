import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand, given, needing } from '../command.js'
import { protectSecrets } from '../instrumentation.js'
import { say, stopped, tell } from '../io.js'
import { bold } from '../output/colours.js'
import { standardError } from '../output/log.js'
import { metricsOptions, startMetrics } from '../output/metrics.js'

/** Adds `vault holder`. */
export const addHolderCommand: AddCommand = defineCommand({
  name: 'holder',
  runsUntilStopped: true,
  help: 'run a holder of a vault: a process with a share of the key',
  options: {
    dir: { is: 'dir', help: "the holder's own directory; made if it is not there", required: true },
    listen: { value: 'host:port', help: 'the address to listen on', default: '127.0.0.1:7500' },
    writer: {
      is: 'key',
      help: "of a new holder: the public key of the vault's writer, as init prints it",
    },
    ...needing('writer', {
      caller: {
        is: 'list',
        value: 'key',
        help: 'of a new holder: the public key of an enclave; may be repeated',
      },
      peer: {
        is: 'list',
        value: 'key',
        help: 'of a new holder: the public key of another holder; may be repeated',
      },
      minThreshold: {
        is: 'number',
        help: 'of a new holder: the least threshold that it deals its share for (default: that of its first share)',
      },
    }),
    ...metricsOptions,
    insecurePermissions: { help: 'continue even if others can read or write the files' },
    allowInstrumentation: { help: 'start even if others can see the secrets of the process' },
  },
  examples: [
    'sluice vault holder --dir holder1 --listen 127.0.0.1:7500 --writer 4d5e… --caller 1a2b…',
  ],
  async run(options, io) {
    const { dir: directory, writer, caller: callers, peer: peers, minThreshold } = options
    const log = standardError(io)
    protectSecrets(options.allowInstrumentation, io, log)
    const [, host, port] = /^\[?([^\]]+?)\]?:(\d{1,5})$/.exec(options.listen) ?? []
    if (host === undefined) throw new ValidationError('--listen must be an address, : and a port')
    if (writer === undefined && !existsSync(join(directory, 'holder.json')))
      throw new ValidationError(
        `${directory} has no holder.json, so this is a new holder: give --writer the writer's key that sluice vault init prints, or name the directory of a holder with --dir`,
      )
    const trust =
      writer === undefined ? undefined : { writer, callers, peers, ...given({ minThreshold }) }
    // First, so that nothing runs if its port is in use.
    await using metrics = await startMetrics(options, io)
    const { startVaultHolder } = await import('@sluice/confidential-http/vault')
    const holder = await startVaultHolder({
      ...{ directory, host, log },
      port: Number(port),
      insecurePermissions: options.insecurePermissions === true,
      ...given({ trust }),
    })
    metrics.add(holder.health)
    tell(io, bold('A holder is running; Ctrl-C ends it'))
    say(io, `HOLDER_URL=${holder.url}`)
    say(io, `HOLDER_KEY=${holder.publicKey}`)
    await stopped(io)
    await holder.close()
  },
})
