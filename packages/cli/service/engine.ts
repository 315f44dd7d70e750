import type { DataEngine, DataEngineOptions } from '@sluice/engine'
import type { Command } from 'commander'
import { wholeNumber } from '../input/arguments.js'
import { fileError } from '../input/files.js'
import { type IO, say } from '../io.js'
import { bold } from '../output/colours.js'

/** The options of the commands that run a local data engine. */
export type EngineOptions = Pick<
  DataEngineOptions,
  'port' | 'host' | 'origins' | 'apiKey' | 'userSecret'
>

/** Adds them to a command. */
export function addEngineOptions(command: Command): Command {
  return command
    .option('--port <n>', 'the port', wholeNumber(0, 65_535), 8080)
    .option('--host <address>', 'the address to listen on', '127.0.0.1')
    .option('--origins <n>', 'how many origins to run', wholeNumber(1, 999), 1)
    .option('--api-key <key>', 'the API key of its user')
    .option('--user-secret <secret>', 'the secret of its user')
}

/** Prints what is needed to point a client at an engine. */
export function describeEngine(engine: DataEngine, io: IO): void {
  say(io, bold('A local data engine is running; Ctrl-C ends it'))
  say(io, `REST_URL=${engine.endpoint}`)
  say(io, `WS_URL=${engine.wsEndpoint}`)
  say(io, `API_KEY=${engine.apiKey}`)
  say(io, `USER_SECRET=${engine.userSecret}`)
  say(io, 'These four go into the environment of a client, or into a file for its --env-file.\n')
  if (engine.origins.length > 1)
    for (const { id, wsEndpoint } of engine.origins) say(io, `origin ${id} at ${wsEndpoint}`)
  say(io, `${engine.feeds.length} feeds:`)
  for (const feedID of engine.feeds) say(io, `  ${feedID}`)
}

/** Prints the signers of an engine. */
export function describeSigners({ network: { f, signers } }: DataEngine, io: IO): void {
  say(io, `every report is signed by ${f + 1} of ${signers.length} signers; f is ${f}:`)
  for (const signer of signers) say(io, `  ${signer}`)
}

/** Writes the signers of an engine into the file of `--signers-out`. */
export async function writeSigners({ network }: DataEngine, path: string): Promise<void> {
  const { writeFile } = await import('node:fs/promises')
  await writeFile(path, `${JSON.stringify(network)}\n`).catch((cause: unknown) => {
    throw fileError('--signers-out', path, cause, 'written to')
  })
}
