import { access } from 'node:fs/promises'
import type { Command } from 'commander'
import { addExamples, number } from '../input/arguments.js'
import { fileError } from '../input/files.js'
import { type IO, stopped } from '../io.js'
import {
  addEngineOptions,
  describeEngine,
  describeSigners,
  type EngineOptions,
  writeSigners,
} from '../service/engine.js'

interface ServeOptions extends EngineOptions {
  readonly interval: number
  readonly seed: number
  readonly feeds?: string
  readonly signersOut?: string
  readonly replay?: string
}

/** Adds `serve`. */
export function addServeCommand(program: Command, io: IO): void {
  const command = addEngineOptions(program.command('serve'))
    .description(
      'run a local data engine: REST, WebSocket and a network of signers, on loopback by default',
    )
    .option('--interval <ms>', 'milliseconds between two reports of a feed', number, 1000)
    .option('--seed <n>', 'the seed of keys and values', number, 1)
    .option('--feeds <ids>', 'feed ids, separated by commas')
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
  const { interval, feeds, signersOut, replay, ...others } = options
  if (replay !== undefined)
    await access(replay).catch((cause: unknown) => {
      throw fileError('--replay', replay, cause)
    })
  const { startDataEngine } = await import('@sluice/engine')
  await using engine = await startDataEngine({
    ...others,
    intervalMs: interval,
    retain: 3600,
    ...(replay === undefined ? {} : { replay }),
    ...(feeds === undefined ? {} : { feeds: feeds.split(',').map(id => id.trim()) }),
  })
  if (signersOut !== undefined) await writeSigners(engine, signersOut)
  describeEngine(engine, io)
  // Recorded reports have signers of their own.
  if (replay === undefined) describeSigners(engine, io)
  await stopped(io)
}
