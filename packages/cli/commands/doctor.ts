import { type Command, InvalidArgumentError } from 'commander'
import type { Feed } from 'sluice/client'
import { isStreamsError, ValidationError } from 'sluice/core'
import type { Subject } from '../doctor/context.js'
import { addExamples } from '../input/arguments.js'
import { feedText, findFeeds } from '../input/feeds.js'
import { type IO, print } from '../io.js'
import { dim, green, red, yellow } from '../output/colours.js'
import { createProgress } from '../output/progress.js'
import { addLogOptions, type LogOptions } from '../service/nats.js'
import {
  addServiceOptions,
  connect,
  findService,
  type Service,
  type ServiceOptions,
} from '../service/service.js'

interface DoctorOptions extends ServiceOptions, Partial<LogOptions> {
  readonly seconds: number
  readonly json?: boolean
}

/** Adds `doctor`. */
export function addDoctorCommand(program: Command, io: IO): void {
  const nats =
    'look at the log of a relay, at these servers of NATS; without credentials of the service at that alone'
  const command = addLogOptions(addServiceOptions(program.command('doctor')), nats)
    .description('find out what is wrong between this machine and the service, and what to do')
    .argument('[feeds...]', `${feedText}, to see whether it may be read`)
    .option('--seconds <n>', 'how long to watch each origin', seconds, 10)
    .option('--json', 'print a JSON object')
    .action((given: string[], options: DoctorOptions) => runDoctor(given, options, io))
  addExamples(
    command,
    'sluice doctor --mainnet ETH/USD BTC/USD',
    'sluice doctor --proxy env --json',
    'sluice doctor --nats nats://127.0.0.1:4222',
  )
}

const MAX_SECONDS = 3600

function seconds(text: string): number {
  const value = Number(text)
  if (text.trim() !== '' && value > 0 && value <= MAX_SECONDS) return value
  throw new InvalidArgumentError(`must be a number of seconds up to ${MAX_SECONDS}`)
}

const colours = { ok: green, warning: yellow, failed: red, 'not checked': dim } as const

async function runDoctor(given: readonly string[], options: DoctorOptions, io: IO): Promise<void> {
  const subject = await findSubject(given, options, io)
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
}

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
  const feeds = await findGiven(given, service, io)
  const { findPackage } = await import('../doctor/manifest.js')
  return {
    ...{ endpoint, wsEndpoint, credentials, seconds },
    network: egress,
    feedIDs: feeds.map(({ feedID }) => feedID),
    log: nats === undefined ? undefined : { ...options, nats },
    env: io.env,
    nodeVersion: process.versions.node,
    folder: findPackage('@sluice/cli'),
  }
}

const TIMEOUT = 10_000

/** The feeds of the arguments. None where they have names and the service can't be asked: the checks say why. */
async function findGiven(
  given: readonly string[],
  service: Service,
  io: IO,
): Promise<readonly Feed[]> {
  if (service.credentials === undefined)
    return findFeeds(given, { listFeeds: async () => [] }, service, io)
  await using client = await connect(service, { retryAttempts: 0, timeout: TIMEOUT })
  try {
    return await findFeeds(given, client, service, io)
  } catch (thrown) {
    if (isStreamsError(thrown, 'VALIDATION')) throw thrown
    return []
  }
}
