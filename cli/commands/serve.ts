import type { Command } from 'commander'
import type { DataEngineOptions } from '../../local/index.js'
import { addExamples, number, wholeNumber } from '../input/arguments.js'
import { fileError } from '../input/files.js'
import { type IO, say, stopped } from '../io.js'
import { bold } from '../output/colours.js'

interface ServeOptions
  extends Pick<
    DataEngineOptions,
    'port' | 'origins' | 'seed' | 'apiKey' | 'userSecret' | 'replay'
  > {
  readonly interval: number
  readonly feeds?: string
  readonly signersOut?: string
}

/** Adds `serve`. */
export function addServeCommand(program: Command, io: IO): void {
  const command = program
    .command('serve')
    .description('run a local data engine: REST, WebSocket and a network of signers, on loopback')
    .option('--port <n>', 'the port', wholeNumber(0, 65_535), 8080)
    .option('--interval <ms>', 'milliseconds between two reports of a feed', number, 1000)
    .option('--origins <n>', 'how many origins to run', wholeNumber(1, 999), 1)
    .option('--seed <n>', 'the seed of keys and values', number, 1)
    .option('--feeds <ids>', 'feed ids, separated by commas')
    .option('--api-key <key>', 'the API key of its user')
    .option('--user-secret <secret>', 'the secret of its user')
    .option(
      '--signers-out <file>',
      'write the signers into a JSON file, as verify and stream take them',
    )
    .option('--replay <file>', 'publish the recorded reports of an NDJSON file instead')
    .action((options: ServeOptions) => serve(options, io))
  addExamples(
    command,
    'sluice serve --port 8080 --interval 250',
    'sluice serve --origins 2 --signers-out signers.json',
  )
}

/** Runs a local data engine until the user ends it, and prints what a client needs. */
async function serve(options: ServeOptions, io: IO): Promise<void> {
  const { interval, feeds, signersOut, ...others } = options
  const { startDataEngine } = await import('../../local/index.js')
  await using engine = await startDataEngine({
    ...others,
    intervalMs: interval,
    retain: 3600,
    ...(feeds === undefined ? {} : { feeds: feeds.split(',').map(id => id.trim()) }),
  })
  const { f, signers } = engine.network
  if (signersOut !== undefined) await writeSigners(signersOut, engine.network)
  say(io, bold('A local data engine is running; Ctrl-C ends it'))
  say(io, `REST_URL=${engine.endpoint}`)
  say(io, `WS_URL=${engine.wsEndpoint}`)
  say(io, `API_KEY=${engine.apiKey}`)
  say(io, `USER_SECRET=${engine.userSecret}\n`)
  if (engine.origins.length > 1)
    for (const { id, wsEndpoint } of engine.origins) say(io, `origin ${id} at ${wsEndpoint}`)
  say(io, `every report is signed by ${f + 1} of ${signers.length} signers, f is ${f}:`)
  for (const signer of signers) say(io, `  ${signer}`)
  say(io, `${engine.feeds.length} feeds:`)
  for (const feedID of engine.feeds) say(io, `  ${feedID}`)
  await stopped(io)
}

async function writeSigners(path: string, network: object): Promise<void> {
  const { writeFile } = await import('node:fs/promises')
  await writeFile(path, `${JSON.stringify(network)}\n`).catch(cause => {
    throw fileError('--signers-out', path, cause, 'written to')
  })
}
