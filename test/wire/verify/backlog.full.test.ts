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
import { closeAfterEach, failOnUnhandled } from '../../support/closing.js'
import {
  feedID,
  makeNetwork,
  type Network,
  type Service,
  startService,
} from '../../support/service/service.js'
import { pause, until } from '../../support/waiting.js'

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

describe('a stream that can not verify as fast as reports come', () => {
  const places: [string, number][] = [
    ['a thread', 1],
    ['the event loop', 0],
  ]
  test.each(places)(
    'says so, and how fast it is: noble in %s',
    async (_, workers) => {
      const service = await start(20)
      const { stream, statuses, lines } = await open(service, {
        signers: setOf(network),
        curveLibrary: 'noble',
        workers,
      })
      const unknown = { curveLibrary: undefined, threads: undefined, f: undefined }
      expect(verificationOf(stream)).toMatchObject({ waiting: 0, oldestMs: 0, ...unknown })
      const past = Math.floor(Date.now() / 1000) - 200
      // 500 reports a second, of which 110 can be verified by a machine that does nothing else.
      for (let time = 0; time < 20; time++) {
        for (const feed of service.feeds) service.publish(feed, { observed: past + time })
        await pause(40)
      }
      await until(
        () => statuses.length > 0 && verificationOf(stream).reportsPerSecond !== undefined,
      )
      const behind = verificationOf(stream)
      expect(behind).toMatchObject({ curveLibrary: 'noble', threads: workers, f: 5 })
      expect(behind.waiting).toBeGreaterThan(20)
      expect(behind.oldestMs).toBeGreaterThan(1000)
      expect(behind.reportsPerSecond).toBeGreaterThan(0)
      expect(stream.getMetrics().queued).toBe(0)
      await until(() => stream.getMetrics().accepted === 400)
      await until(() => statuses.length > 1)
      expect(verificationOf(stream)).toMatchObject({ waiting: 0, oldestMs: 0 })
      expect(statuses).toMatchObject([
        { type: 'behind', cause: 'recovery' },
        { type: 'caught-up', cause: 'recovery' },
      ])
      const [first] = statuses as [Extract<Status, { type: 'behind' | 'caught-up' }>]
      expect(first.oldestMs).toBeGreaterThan(2000)
      expect(first.waiting).toBeGreaterThan(20)
      const place = workers === 0 ? 'the event loop' : '1 thread'
      expect(lines.filter(line => /^noble in/.test(line))).toEqual([
        expect.stringMatching(
          new RegExp(`^noble in ${place} verifies about \\d+ reports a second, of f 5$`),
        ),
      ])
      expect(
        lines.filter(line => /reports wait to be verified, the oldest/.test(line)),
      ).toHaveLength(1)
      expect(lines).toContain('reports are verified in time again')
    },
    90_000,
  )
})
