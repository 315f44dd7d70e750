#!/usr/bin/env node
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import type { Client } from '../client/client.js'
import { asError, ValidationError } from '../core/errors.js'
import { VERSION } from '../core/version.js'
import type { DataEngineOptions } from '../local/index.js'
import { createClient } from '../presets/create-client.js'
import { formatReport } from '../presets/report.js'
import { type DecodedReport, decodeReport } from '../presets/versions.js'
import { ReportDecodingError } from '../report/errors.js'
import { isFeedID } from '../report/feed-id.js'
import { number, rejectRepeats } from './arguments.js'
import { addAuditCommands } from './audit.js'
import { findCredentials } from './credentials.js'
import { addEnclaveCommands } from './enclave.js'
import { exitCodeOf, hideKeys } from './errors.js'
import { addNetworkOptions, type NetworkOptions, readNetwork } from './network.js'
import { addRelayCommand } from './relay.js'
import { addVaultCommands } from './vault.js'
import { addVerifyCommand } from './verify.js'
import { createView, describeFeed } from './view.js'

const stop = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => stop.abort())

const { stdout } = process
stdout.on('error', error => {
  // The reader has closed the pipe, as `head` does.
  if ((error as NodeJS.ErrnoException).code === 'EPIPE') process.exit(0)
  throw error
})
const say = (text: string): void => void stdout.write(`${text}\n`)

// A command imports its modules when it runs, so that the others start faster.
const program = new Command('sluice')
  .description('Signed data reports from the command line')
  .version(VERSION)
  .configureOutput({ outputError: (text, write) => write(hideKeys(text)) })
  .exitOverride(error => process.exit(error.exitCode === 0 ? 0 : 2))
  .addHelpText(
    'after',
    `
Credentials come from API_KEY and USER_SECRET (or API_SECRET, STREAMS_API_KEY, STREAMS_API_SECRET); REST_URL and WS_URL
are the URLs, by default those of the testnet.

Examples:
  $ sluice demo
  $ sluice serve --port 8080 --interval 250
  $ sluice decode 0x0006f9b5… --json
  $ sluice verify 0x0006f9b5… --signers signers.json
  $ sluice relay --nats nats://127.0.0.1:4222 --feeds 0x0003…,0x0003… --create
  $ sluice vault put API_KEY --host api.example.com < key.txt
  $ sluice stream 0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782 --json

Ends with 0 when all went well, 2 for wrong arguments, 3 when not authorised, 4 for the network, the service or the log, 5 for an
invalid report, 1 for any other error.`,
  )

addNetworkOptions(program.command('demo'))
  .description(
    'stream signed reports from a local data engine, or with credentials from the service; then make a confidential request',
  )
  .option('--watch', 'stream until Ctrl-C')
  .option('--seconds <n>', 'how long to stream', number, 10)
  .action(async (options: { watch?: boolean; seconds: number } & NetworkOptions) => {
    const { demo } = await import('./demo.js')
    const seconds = options.watch ? Number.POSITIVE_INFINITY : options.seconds
    const streamed = await demo({
      seconds,
      signal: stop.signal,
      credentials: findCredentials(process.env),
      network: readNetwork(options, process.env),
      out: stdout,
    })
    if (stop.signal.aborted) {
      process.exitCode = streamed
      return
    }
    say('')
    const { confidentialDemo } = await import('./confidential-demo.js')
    process.exitCode = streamed || (await confidentialDemo(stdout))
  })

program
  .command('serve')
  .description('run a local data engine: REST, WebSocket and a network of signers, on loopback')
  .option('--port <n>', 'the port', number, 8080)
  .option('--interval <ms>', 'milliseconds between two reports of a feed', number, 1000)
  .option('--origins <n>', 'how many origins to run', number, 1)
  .option('--seed <n>', 'the seed of keys and values', number, 1)
  .option('--feeds <ids>', 'feed ids, separated by commas')
  .option('--api-key <key>', 'the API key of its user')
  .option('--user-secret <secret>', 'the secret of its user')
  .option('--signers <file>', 'write the signers into a JSON file, as sluice verify takes them')
  .option('--replay <file>', 'publish the recorded reports of an NDJSON file instead')
  .action(async (options: ServeOptions) => {
    const { interval, feeds, signers, ...others } = options
    const engine: DataEngineOptions = {
      ...others,
      intervalMs: interval,
      retain: 3600,
      ...(feeds === undefined ? {} : { feeds: feeds.split(',').map(id => id.trim()) }),
    }
    const { serve } = await import('./serve.js')
    process.exitCode = await serve(engine, stop.signal, stdout, signers)
  })

interface ServeOptions
  extends Pick<
    DataEngineOptions,
    'port' | 'origins' | 'seed' | 'apiKey' | 'userSecret' | 'replay'
  > {
  readonly interval: number
  readonly feeds?: string
  readonly signers?: string
}

program
  .command('decode')
  .description('decode a report, given as hexadecimal digits; - reads it from standard input')
  .argument('<fullReport>')
  .argument('[feedID]', 'the feed it must be of; read from the report when absent')
  .option('--json', 'print JSON, big integers as strings')
  .action((given: string, feedID: string | undefined, options: { json?: boolean }) => {
    const fullReport = (given === '-' ? readFileSync(0, 'utf8') : given).trim()
    const signedFor = `0x${fullReport.slice(514, 578)}`
    if (feedID === undefined && !isFeedID(signedFor)) {
      throw new ReportDecodingError('fullReport is rejected: it is cut short, or not hexadecimal')
    }
    const decoded = decodeReport(fullReport, feedID ?? signedFor)
    say(options.json ? JSON.stringify(decoded) : formatReport(decoded))
  })

addNetworkOptions(program.command('feeds'))
  .description('list the feeds the credentials may read')
  .option('--json', 'print NDJSON')
  .action(async (options: ReadOptions) => {
    for (const feed of await connected(options).listFeeds({ signal: stop.signal }))
      say(options.json ? JSON.stringify(feed) : stdout.isTTY ? describeFeed(feed) : feed.feedID)
  })

addNetworkOptions(program.command('latest'))
  .description('fetch and decode the latest report of a feed')
  .argument('<feedID>')
  .option('--json', 'print JSON, big integers as strings')
  .action(async (feedID: string, options: ReadOptions) => {
    const report = await connected(options).getLatestReport(feedID, { signal: stop.signal })
    say(options.json ? JSON.stringify(report) : formatReport(report.decoded))
  })

addNetworkOptions(program.command('stream'))
  .description('stream feeds until Ctrl-C')
  .argument('<feedIDs...>')
  .option('--json', 'print NDJSON, big integers as strings')
  .action(async (feedIDs: string[], options: ReadOptions) => {
    const stream = connected(options).createStream(feedIDs, { signal: stop.signal })
    const view = options.json ? undefined : createView(stdout, stream.feedIDs)
    stream.on('report', report => (view ? view.show(report) : say(JSON.stringify(report))))
    let shown: unknown
    stream.on('error', error => {
      shown = error
      process.stderr.write(`sluice: ${error.message}\n`)
    })
    try {
      await stream.connect()
      await stream.closed
    } catch (thrown) {
      if (thrown !== shown) throw thrown
      process.exitCode = exitCodeOf(thrown)
    } finally {
      view?.end()
    }
  })

addVaultCommands(program, {
  get input() {
    return process.stdin
  },
  out: stdout,
  warn: text => void process.stderr.write(`sluice: ${text}\n`),
  env: process.env,
  signal: stop.signal,
})
addEnclaveCommands(program, stop.signal)
addAuditCommands(program, stdout)
addVerifyCommand(program, stdout)
addRelayCommand(program, stop.signal, text => process.stderr.write(`sluice: ${text}\n`), stdout)
rejectRepeats(program)

interface ReadOptions extends NetworkOptions {
  readonly json?: boolean
}

function connected(options: NetworkOptions): Client<DecodedReport> {
  const credentials = findCredentials(process.env)
  if (credentials === undefined) {
    throw new ValidationError('API_KEY and USER_SECRET must be set in the environment')
  }
  return createClient({ ...credentials, ...readNetwork(options, process.env) })
}

program.parseAsync().catch((thrown: unknown) => {
  if (stop.signal.aborted) return
  process.stderr.write(`sluice: ${hideKeys(asError(thrown).message)}\n`)
  process.exitCode = exitCodeOf(thrown)
})
