import { join } from 'node:path'
import { ValidationError } from 'sluice/core'
import { writeNew } from 'sluice/internal'
import type { CertifySubject } from '../certify/context.js'
import type { RecordVerdict } from '../certify/finding.js'
import { type AddCommand, defineCommand, type Values } from '../command.js'
import { feedsText, findFeeds } from '../input/feeds.js'
import { checkFolder, fileError, makeFolder } from '../input/files.js'
import { type IO, print, tell } from '../io.js'
import { dim, green, red, yellow } from '../output/colours.js'
import { configOf, connect, findService, serviceOptions } from '../service/service.js'
import { findSigners, signerOptions } from '../service/signers.js'

const options = {
  ...serviceOptions,
  ...signerOptions,
  for: { is: 'span', help: 'how long to watch the streams', default: '3m' },
  rate: {
    is: 'number',
    help: 'the most requests in a second; the service allows 10 to an endpoint',
    min: 0.1,
    max: 10,
    default: 2,
  },
  out: {
    is: 'dir',
    help: 'write the record into this directory, as Markdown and as JSON (default: Markdown to standard output)',
  },
  json: { help: 'print the record as JSON', excludes: ['out'] },
} as const

/** Adds `certify`. */
export const addCertifyCommand: AddCommand = defineCommand({
  name: 'certify',
  arguments: { '[feeds...]': `${feedsText} (default: up to five that the service lists)` },
  options,
  examples: [
    'sluice certify --mainnet --for 10m --out records',
    'sluice certify ETH/USD BTC/USD --testnet --json > record.json',
  ],
  after: 'Ends with 6 if something deviates from its documentation.',
  async run(options, io, { feeds }) {
    const { out, json, rate } = options
    const subject = await findSubject(feeds, options, io)
    if (out !== undefined) {
      await makeFolder(out).catch((cause: unknown) => {
        throw fileError('--out', out, cause, 'written to')
      })
      // Before the checks, which take minutes.
      checkFolder('--out', join(out, 'record.json'))
    }
    const { certify, mostRequests } = await import('../certify/certify.js')
    const { formatRecord, recordName } = await import('../certify/record.js')
    const limits = `at most ${mostRequests} requests and upgrades, at most ${rate} in a second`
    tell(io, `${limits}; streams for ${options.for / 1000} s`)
    const record = await certify(subject, io.signal, ({ id, verdict, seen }) => {
      const text = seen.find(each => each.verdict === verdict)?.text ?? ''
      tell(io, `${colours[verdict](verdict.padEnd(10))}  ${id.padEnd(18)}  ${text}`)
    })
    io.exitCode = record.exitCode
    const text = `${JSON.stringify(record, undefined, 2)}\n`
    if (out === undefined) {
      await print(io, json === true ? text : formatRecord(record))
      return
    }
    const path = join(out, recordName(record))
    try {
      await writeNew(`${path}.json`, text)
      await writeNew(`${path}.md`, formatRecord(record))
    } catch (cause) {
      throw fileError('--out', path, cause, 'written to')
    }
    tell(io, `written: ${path}.md and ${path}.json`)
  },
})

const colours: Readonly<Record<RecordVerdict, (text: string) => string>> = {
  pass: green,
  noted: yellow,
  deviation: red,
  'not tested': dim,
}

async function findSubject(
  feeds: readonly string[],
  given: Values<typeof options>,
  io: IO,
): Promise<CertifySubject> {
  if (given.endpoint !== undefined && given.wsEndpoint === undefined && !io.env.WS_URL)
    throw new ValidationError(
      '--ws-endpoint is required where --endpoint is given: a record is of one service',
    )
  const service = findService(given, io)
  const { endpoint, wsEndpoint, network, egress } = service
  if (wsEndpoint.includes(','))
    throw new ValidationError(
      'the URL of the streams must be a single one: a record is of one service',
    )
  const { apiKey, userSecret } = configOf(service)
  const signers = await findSigners(given)
  return {
    ...{ endpoint, wsEndpoint, network, egress, signers, env: io.env },
    credentials: { apiKey, userSecret },
    feedIDs: await findIDs(feeds, service, io),
    forMs: given.for,
    rate: given.rate,
  }
}

/** Finds the ids of the given feeds, of which there may be a few. */
async function findIDs(
  given: readonly string[],
  service: ReturnType<typeof findService>,
  io: IO,
): Promise<readonly string[]> {
  if (given.length === 0) return []
  await using client = connect(service, { retryAttempts: 0 })
  const { MAX_FEEDS } = await import('../certify/context.js')
  const found = await findFeeds(given, client, service, io)
  if (found.length > MAX_FEEDS)
    throw new ValidationError(`the feeds must be ${MAX_FEEDS} at most, not ${found.length}`)
  return found.map(({ feedID }) => feedID)
}
