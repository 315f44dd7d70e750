import type { Feed, Rest } from 'sluice/client'
import { isStreamsError, ValidationError } from 'sluice/core'
import { type AddCommand, defineCommand } from '../command.js'
import type { Subject } from '../doctor/context.js'
import { feedText, findFeeds } from '../input/feeds.js'
import { type IO, print } from '../io.js'
import { inOneLine } from '../one-line.js'
import { dim, green, red, yellow } from '../output/colours.js'
import { createProgress } from '../output/progress.js'
import { Contexts } from '../service/contexts.js'
import { type LogOptions, logOptions } from '../service/nats.js'
import {
  connect,
  findService,
  type Service,
  type ServiceOptions,
  serviceOptions,
} from '../service/service.js'

type DoctorOptions = ServiceOptions & Partial<LogOptions> & { readonly seconds: number }

/** Adds `doctor`. */
export const addDoctorCommand: AddCommand = defineCommand({
  name: 'doctor',
  arguments: { '[feeds...]': `${feedText}, to see whether it may be read` },
  options: {
    ...serviceOptions,
    ...logOptions,
    nats: {
      is: 'servers',
      help: 'look at the log of a relay, at these servers of NATS; without credentials of the service at that alone',
    },
    seconds: {
      is: 'number',
      help: 'how long to watch each origin',
      min: 0.1,
      max: 3600,
      default: 10,
    },
    json: { help: 'print a JSON object' },
  },
  examples: [
    'sluice doctor --mainnet ETH/USD BTC/USD',
    'sluice doctor --proxy env --json',
    'sluice doctor --nats nats://127.0.0.1:4222',
  ],
  async run(options, io, { feeds }) {
    const subject = await findSubject(feeds, options, io)
    const { doctor } = await import('../doctor/doctor.js')
    const progress = createProgress(io, true)
    const startedAt = performance.now()
    const ticker = setInterval(() => {
      const passed = (performance.now() - startedAt) / 1000
      progress.update(passed / (options.seconds + 1), () => 'watching the origins')
    }, 100)
    try {
      io.exitCode = await doctor(subject, io.signal, {
        json: options.json === true,
        colour: (status, text) => colours[status](text),
        write(text) {
          progress.end()
          void print(io, text)
        },
      })
    } finally {
      clearInterval(ticker)
      progress.end()
    }
  },
})

const colours = { ok: green, warning: yellow, failed: red, 'not checked': dim } as const

async function findSubject(
  given: readonly string[],
  options: DoctorOptions,
  io: IO,
): Promise<Subject> {
  const { nats, seconds } = options
  if (options.endpoint !== undefined && options.wsEndpoint === undefined && !io.env.WS_URL)
    throw new ValidationError(
      '--ws-endpoint is required where --endpoint is given: the doctor would ask two services',
    )
  const service = findService(options, io)
  const { endpoint, wsEndpoint, credentials, egress } = service
  const { feedIDs, unknownFeeds } = await findGiven(given, service, io)
  // Then only the log is checked, and no check reports the name.
  if (nats !== undefined && credentials === undefined && unknownFeeds[0] !== undefined)
    throw new ValidationError(unknownFeeds[0])
  const { findPackage } = await import('../doctor/checks/machine.js')
  return {
    ...{ endpoint, wsEndpoint, credentials, seconds },
    network: egress,
    context: describeContext(service, io),
    ...{ feedIDs, unknownFeeds },
    log: nats === undefined ? undefined : { ...options, nats },
    env: io.env,
    nodeVersion: process.versions.node,
    folder: findPackage('@sluice/cli'),
  }
}

function describeContext({ context }: Service, { env }: IO): Subject['context'] {
  return context === undefined ? undefined : { name: context, path: Contexts.read(env).path }
}

/** The timeout of the request for the names of feeds, in milliseconds. */
const TIMEOUT = 10_000

/**
 * Finds the feeds of the arguments, and says what is wrong with those that do not exist. Leaves
 * out the names for which the service can't be asked, because the checks report the cause.
 */
async function findGiven(
  given: readonly string[],
  service: Service,
  io: IO,
): Promise<Required<Pick<Subject, 'feedIDs' | 'unknownFeeds'>>> {
  const feedIDs: string[] = []
  const unknownFeeds: string[] = []
  await using client =
    service.credentials && connect(service, { retryAttempts: 0, timeout: TIMEOUT })
  let listed: Promise<Feed[]> | undefined
  const lister: Pick<Rest, 'listFeeds'> = {
    listFeeds(options) {
      listed ??= client?.listFeeds(options) ?? Promise.resolve([])
      return listed
    },
  }
  for (const text of given.flatMap(each => each.split(',')))
    try {
      const [feed] = await findFeeds([text], lister, service, io)
      if (feed !== undefined && !feedIDs.includes(feed.feedID)) feedIDs.push(feed.feedID)
    } catch (thrown) {
      if (isStreamsError(thrown, 'VALIDATION')) unknownFeeds.push(inOneLine(thrown.message))
    }
  return { feedIDs, unknownFeeds }
}
