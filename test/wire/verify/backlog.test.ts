import { Worker } from 'node:worker_threads'
import { describe, expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import {
  createClient,
  defaultPreset,
  LogLevel,
  type SignerSet,
  type Status,
  type Stream,
  type VerifyOptions,
} from '../../../index.js'
import { prometheus } from '../../../plugins/prometheus.js'
import type { VerifyWorker } from '../../../plugins/verify/options.js'
import { closeAfterEach, failOnUnhandled } from '../../support/closing.js'
import { built } from '../../support/files.js'
import { hurry } from '../../support/hurry.js'
import {
  feedID,
  makeNetwork,
  type Network,
  type Service,
  startService,
} from '../../support/service/service.js'
import { until } from '../../support/waiting.js'

/** As many signers as the networks of the service have: a report has six signatures. */
const network = makeNetwork({ size: 16, f: 5 })
const closers = closeAfterEach()
failOnUnhandled()

const setOf = ({ signers, f }: Network): SignerSet => ({ signers, f })

async function start(feeds: number): Promise<Service> {
  const service = await startService({
    feeds: Array.from({ length: feeds }, (_, index) => feedID(3, index)),
    network,
  })
  closers.push(() => service.close())
  return service
}

/** A stream of all feeds that verifies, and what it says. */
async function open(service: Service, verify: VerifyOptions) {
  const { apiKey, userSecret, endpoint, wsEndpoint, feeds } = service
  const register = new Registry()
  const lines: string[] = []
  const note = (line: unknown) => void lines.push(String(line))
  const log = { debug: () => undefined, info: note, warn: note, error: note }
  const logging = { logger: log, logLevel: LogLevel.INFO }
  const client = createClient({
    endpoint,
    wsEndpoint,
    plugins: [prometheus({ register }), ...defaultPreset({ apiKey, userSecret, verify, logging })],
  })
  closers.push(() => client.close())
  const stream = client.createStream([...feeds])
  const statuses: Status[] = []
  stream.on('report', () => undefined)
  stream.on('error', () => undefined)
  stream.on('status', status => {
    if (status.type === 'behind' || status.type === 'caught-up') statuses.push(status)
  })
  await stream.connect()
  return { stream, statuses, lines, register }
}

const verificationOf = (stream: Stream) =>
  stream.getMetrics().verification as NonNullable<ReturnType<Stream['getMetrics']>['verification']>

/** A thread of Node that gets its library at once, and its work once the test lets it. */
function heldThread(): { worker: () => VerifyWorker; release: () => void } {
  let release = (): void => undefined
  const released = new Promise<void>(resolve => {
    release = resolve
  })
  function worker(): VerifyWorker {
    const thread = new Worker(built('cjs/plugins/verify/thread.js'))
    let count = 0
    const post = (message: unknown): void => thread.postMessage(message)
    return Object.assign(Object.create(null) as object, {
      postMessage: (message: unknown) =>
        void (count++ === 0 ? post(message) : released.then(() => post(message))),
      terminate: () => thread.terminate(),
      on: thread.on.bind(thread),
      ref: () => thread.ref(),
      unref: () => thread.unref(),
    })
  }
  return { worker, release: () => release() }
}

describe('a stream that can not verify as fast as reports come', () => {
  test('says so, and how fast it is', async () => {
    const service = await start(2)
    const { worker, release } = heldThread()
    const { stream, statuses, lines } = await open(service, {
      signers: setOf(network),
      curveLibrary: 'noble',
      workers: 1,
      worker,
    })
    const unknown = { curveLibrary: undefined, threads: undefined, f: undefined }
    expect(verificationOf(stream)).toMatchObject({ waiting: 0, oldestMs: 0, ...unknown })
    const past = Math.floor(Date.now() / 1000) - 200
    for (let time = 0; time < 8; time++)
      for (const feed of service.feeds) service.publish(feed, { observed: past + time })
    // The library is known before the first report is verified.
    await until(() => statuses.length > 0 && verificationOf(stream).curveLibrary !== undefined)
    const behind = verificationOf(stream)
    expect(behind).toMatchObject({ curveLibrary: 'noble', threads: 1, waiting: 16 })
    expect(behind.oldestMs).toBeGreaterThan(1000)
    expect(stream.getMetrics()).toMatchObject({ queued: 0, accepted: 0 })
    release()
    await until(() => statuses.length > 1)
    await until(() => stream.getMetrics().accepted === 16)
    expect(verificationOf(stream)).toMatchObject({ waiting: 0, oldestMs: 0, f: 5 })
    expect(verificationOf(stream).reportsPerSecond).toBeGreaterThan(0)
    expect(statuses).toMatchObject([
      { type: 'behind', cause: 'recovery', waiting: 16 },
      { type: 'caught-up', cause: 'recovery' },
    ])
    expect(lines.filter(line => /^noble in/.test(line))).toEqual([
      expect.stringMatching(/^noble in 1 thread verifies about \d+ reports a second, of f 5$/),
    ])
    expect(lines.filter(line => /reports wait to be verified, the oldest/.test(line))).toHaveLength(
      1,
    )
    expect(lines).toContain('reports are verified in time again')
  })

  test('says so of signers that are slow to come, too', async () => {
    hurry()
    const service = await start(3)
    let answer: (set: SignerSet) => void = () => undefined
    const signers = () => new Promise<SignerSet>(resolve => (answer = resolve))
    const { stream, statuses, lines, register } = await open(service, { signers })
    for (const feed of service.feeds) service.publish(feed)
    await until(() => verificationOf(stream).waiting === 3)
    await until(() => statuses.length > 0)
    expect(statuses).toMatchObject([{ type: 'behind', cause: 'signers', waiting: 3 }])
    expect(lines.at(-1)).toMatch(/^3 reports wait to be verified, .* signers are being looked up$/)
    const page = await register.metrics()
    expect(page).toContain('sluice_verification_waiting 3')
    expect(Number(/^sluice_verification_oldest_seconds (\S+)/m.exec(page)?.[1])).toBeGreaterThan(2)
    answer(setOf(network))
    await until(() => stream.getMetrics().accepted === 3)
    await until(() => statuses.length > 1)
    await stream.close()
    expect(verificationOf(stream)).toMatchObject({ waiting: 0, oldestMs: 0 })
    const caughtUp = { type: 'caught-up', waiting: 0, oldestMs: 0, cause: 'signers' }
    expect(statuses[1]).toMatchObject(caughtUp)
  })

  test('and one that verifies nothing has no such metrics', async () => {
    const service = await start(1)
    const { stream } = await open(service, { signers: setOf(network), mode: 'on-demand' })
    expect(stream.getMetrics().verification).toBeUndefined()
  })
})
