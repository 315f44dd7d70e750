// The same failures for two clients, each in a process of its own: ours as built, and the unmodified official one.
import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals'
import {
  type DataEngine,
  type DataEngineOptions,
  type PublishedReport,
  startDataEngine,
} from '../../local/index.js'

jest.setTimeout(60_000)

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const btcUsd = '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439'

const sdks = ['sluice', '@chainlink/data-streams-sdk'] as const
type SDK = (typeof sdks)[number]

/** How a program is set up; all of it is documented for both clients. */
interface Setup {
  config?: { haMode?: boolean }
  options?: { reconnectInterval?: number }
  /** The handler of `report`, or the connectionStatusCallback, throws each time it is called. */
  throwing?: 'report' | 'status'
  /** No handler for `error`. */
  deaf?: boolean
}

interface Event {
  name:
    | 'dial'
    | 'report'
    | 'error'
    | 'disconnected'
    | 'connected'
    | 'rejected'
    | 'closing'
    | 'closed'
  value?: unknown
  /** When it was heard of, in ms of the clock. */
  at: number
}

/** What every program is, whichever client it imports. It closes its stream when its input ends. */
const programOf = (sdk: SDK, given: object) => `
  import { subscribe } from 'node:diagnostics_channel'
  import { createClient } from '${sdk}'
  const { config, options, throwing, deaf, feedID } = ${JSON.stringify(given)}
  const tell = (name, value) => process.stdout.write(JSON.stringify({ name, value }) + '\\n')
  const fail = where => { if (throwing === where) throw new Error('mine') }
  subscribe('net.client.socket', () => tell('dial'))
  if (throwing === 'status') config.connectionStatusCallback = () => fail('status')
  const stream = createClient(config).createStream([feedID], options)
  stream.on('report', ({ feedID, observationsTimestamp }) => {
    tell('report', { feedID, observationsTimestamp })
    fail('report')
  })
  if (!deaf) stream.on('error', error => tell('error', error.message))
  stream.on('disconnected', () => tell('disconnected'))
  process.stdin.resume().on('end', () => {
    tell('closing')
    stream.close().then(() => tell('closed'))
  })
  stream.connect().then(() => tell('connected'), error => tell('rejected', error.message))
`

/** Runs the program of a client against an engine. */
function run(sdk: SDK, engine: DataEngine, setup: Setup = {}) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const { config, options = {}, throwing, deaf = false } = setup
  const given = {
    config: { apiKey, userSecret, endpoint, wsEndpoint, ...config },
    options,
    throwing,
    deaf,
    feedID: ethUsd,
  }
  const child = spawn(process.execPath, ['--input-type=module', '-e', programOf(sdk, given)], {
    cwd: join(__dirname, '../..'),
  })
  const events: Event[] = []
  let exitedAt: number | undefined
  let rest = ''
  let complaint = ''
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    const lines = (rest + chunk).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) events.push({ ...(JSON.parse(line) as Event), at: Date.now() })
  })
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
    complaint += chunk
  })
  child.stdin.on('error', () => undefined)
  const exited = new Promise<void>(resolve =>
    child.on('close', () => {
      exitedAt = Date.now()
      resolve()
    }),
  )
  const all = (name: Event['name']) => events.filter(event => event.name === name)

  const reports = () =>
    all('report').map(event => event.value as { feedID: string; observationsTimestamp: number })

  /** Waits for something, no longer than the process lives; whether it has come true. */
  async function until(condition: () => boolean, ms = 8000): Promise<boolean> {
    for (const end = performance.now() + ms; performance.now() < end; await pause(5)) {
      if (condition()) return true
      if (exitedAt !== undefined) break
    }
    return condition()
  }

  return {
    all,
    until,
    reports,
    times: () => reports().map(report => report.observationsTimestamp),
    get isAlive() {
      return exitedAt === undefined
    },
    get exitedAt() {
      return exitedAt
    },
    /** The line on which Node says what ended the process. */
    get complaint() {
      return /^\w*Error.*$/m.exec(complaint)?.[0] ?? complaint.slice(0, 200)
    },
    /** Until the stream is up, with so many connections. */
    async open(connections = 1): Promise<void> {
      const isOpen = () => all('connected').length > 0 && engine.connections >= connections
      if (!(await until(isOpen))) throw new Error(`${sdk} did not connect: ${complaint}`)
    },
    endInput: () => void child.stdin.end(),
    async kill(): Promise<void> {
      child.kill('SIGKILL')
      await exited
    },
  }
}
type Run = ReturnType<typeof run>

const pause = (ms: number) => new Promise<void>(resolve => setTimeout(resolve, ms))

/** Starts an engine and a program against it, and ends both. */
async function within<Outcome>(
  sdk: SDK,
  engineOptions: DataEngineOptions,
  setup: Setup,
  measure: (engine: DataEngine, program: Run) => Promise<Outcome>,
  prepare?: (engine: DataEngine) => void,
): Promise<Outcome> {
  const feeds = [ethUsd, btcUsd]
  const engine = await startDataEngine({ feeds, intervalMs: 0, history: 0, ...engineOptions })
  prepare?.(engine)
  const program = run(sdk, engine, setup)
  try {
    return await measure(engine, program)
  } finally {
    await program.kill()
    await engine.close()
  }
}

const rows: string[] = []

/** Measures both clients at once, each with its own engine, and notes the row of the table. */
async function compare<Outcome>(
  number: number,
  failure: string,
  measure: (sdk: SDK) => Promise<Outcome>,
  show: (outcome: Outcome) => string,
): Promise<{ ours: Outcome; official: Outcome }> {
  const [ours, official] = await Promise.all([measure(sdks[0]), measure(sdks[1])])
  rows[number] = `| ${failure} | ${show(ours)} | ${show(official)} |`
  return { ours, official }
}

const count = (many: number, what: string) => `${many || 'no'} ${what}${many === 1 ? '' : 's'}`
const life = ({ isAlive, complaint }: { isAlive: boolean; complaint: string }) =>
  isAlive ? 'the process lives' : `the process dies (${complaint})`

/** What has come of three reports that were published after a failure. */
async function publishThree(engine: DataEngine, program: Run) {
  const published = [1, 2, 3].map(() => engine.publish(ethUsd).observationsTimestamp)
  const later = () => program.times().filter(time => published.includes(time)).length
  await program.until(() => later() === 3, 2000)
  await pause(300)
  return { later: later(), isAlive: program.isAlive, complaint: program.complaint }
}

function measureDeadOrigin(sdk: SDK) {
  return within(sdk, { origins: 2 }, { config: { haMode: true } }, async (engine, program) => {
    await program.open(2)
    const dead = engine.origins[1] as DataEngine['origins'][number]
    const before = dead.dials
    await dead.kill()
    await pause(30_000)
    return { dials: dead.dials - before, connections: engine.connections }
  })
}

let halfAMinute: ReturnType<typeof compare<Awaited<ReturnType<typeof measureDeadOrigin>>>>
beforeAll(() => {
  // The other rows run meanwhile.
  halfAMinute = compare(
    4,
    'HA, one of two origins is dead for 30 s, default options',
    measureDeadOrigin,
    ({ dials }) => `${count(dials, 'dial')} towards it`,
  )
  halfAMinute.catch(() => undefined)
})

afterAll(async () => {
  await halfAMinute.catch(() => undefined)
  const head = ['| failure | sluice | official SDK 1.2.1 |', '| --- | --- | --- |']
  console.log([...head, ...rows.filter(Boolean)].join('\n'))
})

test('a server that is away for 4 s', async () => {
  const { ours } = await compare(
    1,
    'the server is away for 4 s, default options: the 10 s after it is back',
    sdk =>
      within(sdk, { intervalMs: 200 }, {}, async (engine, program) => {
        await program.open()
        await program.until(() => program.times().length >= 3)
        await engine.stop()
        await pause(4000)
        await engine.start()
        const back = Date.now()
        await pause(10_000)
        engine.pause()
        const published = engine
          .ledger()
          .filter(({ feedID, publishedAt }) => feedID === ethUsd && publishedAt >= back)
        const last = published.at(-1)?.observationsTimestamp ?? 0
        await program.until(() => program.times().includes(last), 1000)
        const received = new Set(program.times())
        const isDelivered = (report: PublishedReport) => received.has(report.observationsTimestamp)
        const first = published.findIndex(isDelivered)
        return {
          published: published.length,
          delivered: published.filter(isDelivered).length,
          /** From the first that is delivered to the last. */
          missing:
            first < 0
              ? undefined
              : published.slice(first).filter(each => !isDelivered(each)).length,
          errors: program.all('error').length,
          disconnected: program.all('disconnected').length,
          isAlive: program.isAlive,
          complaint: program.complaint,
        }
      }),
    ({ published, delivered, errors, disconnected, ...rest }) =>
      `${delivered} of ${published} reports, ${count(errors, 'error')}, ${disconnected} × \`disconnected\`, ${life(rest)}`,
  )
  expect(ours.published).toBeGreaterThan(40)
  // The third dial, the first that can succeed, comes 7 s after the loss at the latest.
  expect(ours.delivered).toBeGreaterThan(0.6 * ours.published)
  expect(ours).toMatchObject({ missing: 0, errors: 0, disconnected: 1, isAlive: true })
})

test('a server that is away for good', async () => {
  const { ours, official } = await compare(
    2,
    'the server is away for good, `reconnectInterval: 200`',
    sdk =>
      within(sdk, {}, { options: { reconnectInterval: 200 } }, async (engine, program) => {
        await program.open()
        const before = program.all('dial').length
        await engine.stop()
        await pause(9000)
        return {
          before,
          dials: program.all('dial').length - before,
          errors: program.all('error').map(event => event.value),
          disconnected: program.all('disconnected').length,
          isAlive: program.isAlive,
          complaint: program.complaint,
        }
      }),
    ({ dials, errors, disconnected, ...rest }) =>
      `${count(dials, 'dial')}, ${count(errors.length, 'error')}, ${disconnected} × \`disconnected\`, ${life(rest)}`,
  )
  expect(ours).toMatchObject({ before: 1, dials: 5, disconnected: 1, isAlive: true })
  expect(ours.errors).toHaveLength(1)
  // Dials are counted where sockets are made, so its own are too.
  expect(official.before).toBe(1)
})

test('an origin that refuses its first upgrade', async () => {
  const { ours } = await compare(
    3,
    'HA, one of two origins answers its first upgrade with 503',
    sdk =>
      within(
        sdk,
        { origins: 2 },
        { config: { haMode: true } },
        async (engine, program) => {
          await program.open()
          await pause(5000)
          const refused = engine.requests().filter(request => request.status === 503).length
          return { connections: engine.connections, refused }
        },
        engine => engine.origins[1]?.refuse(503, 1),
      ),
    ({ connections }) => `${connections} of 2 connections open after 5 s`,
  )
  expect(ours).toEqual({ connections: 2, refused: 1 })
})

test('reports that overtake each other', async () => {
  const { ours, official } = await compare(
    5,
    'observations 100, 102, 101, 103 from two origins',
    sdk =>
      within(sdk, { origins: 2 }, { config: { haMode: true } }, async (engine, program) => {
        await program.open(2)
        const [fast, slow] = engine.origins
        const publish = (observationsTimestamp: number) =>
          engine.publish(ethUsd, { observationsTimestamp })
        fast?.drop(report => report.observationsTimestamp === 101)
        slow?.delay(300)
        const first = [100, 101, 102].map(publish)
        const isOut = () => first.map(each => engine.deliveries(each).length).join() === '2,1,2'
        await program.until(isOut)
        await pause(100)
        slow?.delay(0)
        publish(103)
        await program.until(() => program.times().includes(103))
        await pause(100)
        return program.times()
      }),
    times => `${times.join(', ')} delivered`,
  )
  expect(ours).toEqual([100, 102, 101, 103])
  // It has the highest time only, which shows that the late one came late.
  expect(official).toEqual([100, 102, 103])
})

test('a report from the far future', async () => {
  const { ours, official } = await compare(
    6,
    'a signed report with a far-future time, then 5 ordinary ones',
    sdk =>
      within(sdk, {}, {}, async (engine, program) => {
        await program.open()
        engine.publish(ethUsd, { observationsTimestamp: 4_000_000_000 })
        const five = [1, 2, 3, 4, 5].map(() => engine.publish(ethUsd).observationsTimestamp)
        const delivered = () => program.times().filter(time => five.includes(time))
        await program.until(() => delivered().length === 5, 2000)
        return { five, delivered: delivered(), all: program.times() }
      }),
    ({ delivered }) => `${delivered.length} of the 5 delivered`,
  )
  expect(ours.delivered).toEqual(ours.five)
  expect(official.all).toEqual([4_000_000_000])
})

test('a malformed frame that nobody listens for', async () => {
  const { ours } = await compare(
    7,
    'a malformed frame, no `error` handler, then 3 reports',
    sdk =>
      within(sdk, {}, { deaf: true }, async (engine, program) => {
        await program.open()
        expect(engine.send('{"report":', ethUsd)).toBe(1)
        await pause(300)
        return publishThree(engine, program)
      }),
    outcome => `${life(outcome)}, ${outcome.later} of 3 delivered`,
  )
  expect(ours).toMatchObject({ later: 3, isAlive: true, complaint: '' })
})

test('a report handler that throws', async () => {
  const { ours } = await compare(
    8,
    'a `report` handler throws `Error: mine` on each of 3 reports',
    sdk =>
      within(sdk, {}, { throwing: 'report' }, async (engine, program) => {
        await program.open()
        const outcome = await publishThree(engine, program)
        const errors = program.all('error').map(event => String(event.value))
        return { ...outcome, errors }
      }),
    ({ errors, later, ...rest }) =>
      `${errors.length} × \`error\`: ${[...new Set(errors)].join('; ')}; ${later} of 3 delivered, ${life(rest)}`,
  )
  expect(ours).toMatchObject({ later: 3, isAlive: true, errors: ['mine', 'mine', 'mine'] })
})

test('a status callback that throws', async () => {
  const { ours } = await compare(
    9,
    'a `connectionStatusCallback` throws',
    sdk =>
      within(sdk, {}, { throwing: 'status' }, async (engine, program) => {
        const settled = () => program.all('connected').length + program.all('rejected').length > 0
        await program.until(settled, 6000)
        const isConnected = program.all('connected').length > 0
        const isRejected = program.all('rejected').length > 0
        return { ...(await publishThree(engine, program)), isConnected, isRejected }
      }),
    ({ isConnected, isRejected, later, ...rest }) =>
      `connect() ${isConnected ? 'resolves' : isRejected ? 'rejects' : 'does not settle'}, ${life(rest)}, ${later} of 3 delivered`,
  )
  expect(ours).toMatchObject({ isConnected: true, isAlive: true, later: 3 })
})

test('a report that was not asked for', async () => {
  const { ours } = await compare(
    10,
    'a report of a feed not subscribed, and one whose envelope names another feed than its blob',
    sdk =>
      within(sdk, {}, {}, async (engine, program) => {
        await program.open()
        const other = engine.publish(
          btcUsd,
          { observationsTimestamp: 1000 },
          { streamed: false, stored: false },
        )
        const { fullReport, validFromTimestamp, observationsTimestamp } = other
        for (const feedID of [btcUsd, ethUsd]) {
          const report = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
          expect(engine.send(JSON.stringify({ report }), ethUsd)).toBe(1)
        }
        engine.publish(ethUsd, { observationsTimestamp: 2000 })
        await program.until(() => program.times().includes(2000))
        await pause(100)
        const emitted = program.reports()
        return { emitted, errors: program.all('error').length }
      }),
    ({ emitted, errors }) => {
      const isEmitted = [btcUsd, ethUsd].map(feedID =>
        emitted.some(each => each.feedID === feedID && each.observationsTimestamp === 1000),
      )
      return `${isEmitted.map(yes => (yes ? 'emitted' : 'not emitted')).join(', ')}; ${count(errors, 'error')}`
    },
  )
  expect(ours).toMatchObject({
    emitted: [{ feedID: ethUsd, observationsTimestamp: 2000 }],
    errors: 2,
  })
})

test('a process whose stream is closed', async () => {
  const { ours } = await compare(
    11,
    '`close()` of an open stream',
    sdk =>
      within(sdk, {}, {}, async (_engine, program) => {
        await program.open()
        await pause(300)
        program.endInput()
        await program.until(() => program.all('closed').length > 0)
        const closed = program.all('closed')[0]?.at
        await program.until(() => !program.isAlive, 2000)
        const { exitedAt } = program
        return {
          isClosed: closed !== undefined,
          lingered:
            closed === undefined || exitedAt === undefined
              ? undefined
              : Math.max(0, exitedAt - closed),
        }
      }),
    ({ isClosed, lingered }) =>
      !isClosed
        ? 'close() does not settle'
        : lingered === undefined
          ? 'the process still runs 2 s later'
          : `the process ends by itself ${lingered} ms later`,
  )
  expect(ours.isClosed).toBe(true)
  expect(ours.lingered).toBeLessThan(2000)
})

test('an origin that is dead for half a minute', async () => {
  const { ours } = await halfAMinute
  expect(ours.dials).toBeGreaterThan(0)
  expect(ours.dials).toBeLessThanOrEqual(10)
  expect(ours.connections).toBe(1)
})
