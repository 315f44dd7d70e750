import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { createClient as createOfficialClient } from '@chainlink/data-streams-sdk'
import { afterEach, expect, test } from '@jest/globals'
import { type Client, createClient, type StreamOptions } from 'sluice'
import { Archive } from '../archive.js'
import {
  type DataEngine,
  type RecordedReport,
  type RecordingSource,
  type Replay,
  type ReplayOptions,
  type SignerSet,
  startDataEngine,
  startReplay,
} from '../index.js'
import { readRecords } from '../replay.js'
import { openStream, sleep, until } from './support/signed.js'

const eth = `0x0003${'e7'.repeat(30)}`
const euro = `0x0008${'e0'.repeat(30)}`
/** Midday of a day that is long past. */
const noon = 1_700_049_600

const closers: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
})

interface Recorded {
  readonly reports: readonly (RecordedReport & { readonly observationsTimestamp: number })[]
  readonly signers: SignerSet
}

/** A minute of two feeds, as `sluice record` writes it. Each report came 400 ms after its time. */
async function record(seconds = 60): Promise<Recorded> {
  const engine: DataEngine = await startDataEngine({
    feeds: [eth, euro],
    intervalMs: 0,
    history: 0,
    clock: 'manual',
    now: () => noon * 1000,
  })
  // The third report has absorbed a gap, so the feeds show that their reports link.
  for (let second = 0; second < seconds; second++)
    for (const feedID of [eth, euro]) {
      const time = noon + second
      const validFromTimestamp = second === 2 ? noon + 1 : time
      if (second !== 1) engine.publish(feedID, { validFromTimestamp, observationsTimestamp: time })
    }
  const reports = engine.ledger().map(({ feedID, fullReport, observationsTimestamp }) => ({
    ...{ feedID, fullReport, observationsTimestamp, source: 'live' },
    receivedAt: observationsTimestamp * 1000 + 400,
  }))
  const signers = engine.network
  await engine.close()
  return { reports, signers }
}

async function replayOf(reports: RecordingSource, options: ReplayOptions = {}): Promise<Replay> {
  const replay = await startReplay(reports, options)
  closers.push(() => replay.close())
  return replay
}

function clientOf(replay: Replay, options: object = {}, streamOptions: StreamOptions = {}) {
  const { endpoint, wsEndpoint, apiKey, userSecret, clock } = replay
  const config = { endpoint, wsEndpoint, apiKey, userSecret, clock, ...options }
  const client: Client = createClient(config)
  closers.push(() => client.close())
  const stream = client.createStream([eth, euro], streamOptions)
  const times: string[] = []
  const gaps: number[] = []
  stream.on('report', ({ feedID, observationsTimestamp: time, source }) => {
    times.push(`${feedID === eth ? 'eth' : 'euro'} ${time - noon} ${source}`)
  })
  stream.on('gap', ({ from }) => void gaps.push(from - noon))
  return { client, stream, times, gaps }
}

test('a minute is replayed in a second, with the signatures of that day and the clock of that day', async () => {
  const { reports, signers } = await record()
  const replay = await replayOf(reports, { speed: 60, paused: true })
  const { client, stream, times } = clientOf(replay, { verify: { signers } })
  expect(replay.now()).toBe(noon * 1000 + 399)
  await stream.connect()
  expect(replay.isPaused).toBe(true)
  const begin = performance.now()
  replay.resume()
  await until(() => times.length === 118)
  await replay.ended
  const took = performance.now() - begin
  expect(took).toBeGreaterThan(900)
  expect(times.slice(0, 3)).toEqual(['eth 0 live', 'euro 0 live', 'eth 2 live'])
  expect(stream.getMetrics()).toMatchObject({ verified: 118, verificationFailed: 0, ahead: 0 })
  // The clock goes on after the last report.
  expect(replay.left).toBe(0)
  await until(() => replay.now() > (noon + 61) * 1000)
  const at = await client.getReportAt(eth, noon + 30)
  expect(at.observationsTimestamp).toBe(noon + 30)
  expect((await client.discover()).map(({ feedID }) => feedID)).toEqual([eth, euro])
})

test('begins at any time: what came before is history, and is not streamed', async () => {
  const { reports } = await record()
  const replay = await replayOf(reports, { from: (noon + 50) * 1000, speed: 60, paused: true })
  expect(replay.left).toBe(20)
  const { client, stream, times } = clientOf(replay)
  expect((await client.getLatestReport(eth)).observationsTimestamp).toBe(noon + 49)
  await stream.connect()
  replay.resume()
  await until(() => times.filter(each => each.endsWith('live')).length === 20)
  expect(times.filter(each => each.endsWith('live'))[0]).toBe('eth 50 live')
})

test('is stepped report by report while it stands still', async () => {
  const { reports } = await record(10)
  const replay = await replayOf(reports, { paused: true })
  const { stream, times } = clientOf(replay)
  await stream.connect()
  expect((await replay.step()).map(each => each.observationsTimestamp)).toEqual([noon, noon])
  await until(() => times.length === 2)
  expect(replay.now()).toBe(noon * 1000 + 400)
  expect(await replay.step(4)).toHaveLength(4)
  await until(() => times.length === 6)
  replay.speed = 1000
  expect(() => {
    replay.speed = 0
  }).toThrow('speed must be more than 0')
  replay.resume()
  await expect(replay.step()).rejects.toThrow('step: the clock must stand still')
  await until(() => times.length === 18)
  replay.pause()
  expect(await replay.step()).toEqual([])
})

test('a step is over when every client has read its reports, also one of another process', async () => {
  const { reports } = await record(10)
  const replay = await replayOf(reports, { paused: true })
  const { frames, socket } = await openStream(replay, `/api/v1/ws?feedIDs=${eth}`)
  closers.push(async () => socket.terminate())
  await replay.step(2)
  expect(frames).toHaveLength(1)
  socket.pause()
  let isOver = false
  const step = replay.step(2).then(() => {
    isOver = true
  })
  await sleep(200)
  expect([isOver, frames.length]).toEqual([false, 1])
  socket.resume()
  await step
  expect(frames).toHaveLength(2)
})

test('what the stream had missed is not streamed: it is found, and fetched', async () => {
  const { reports } = await record()
  const missed = reports.map(each =>
    each.feedID === eth && each.observationsTimestamp === noon + 20
      ? { ...each, source: 'backfill', receivedAt: (noon + 25) * 1000 }
      : each,
  )
  // A report that nobody had is a gap.
  const recording = missed.filter(
    each => each.feedID !== euro || each.observationsTimestamp !== noon + 10,
  )
  const replay = await replayOf(recording, { speed: 60, paused: true })
  const { stream, times, gaps } = clientOf(replay)
  await stream.connect()
  replay.resume()
  await until(() => times.length === 117 && gaps.length === 1)
  expect(times.filter(each => each.endsWith('backfill'))).toEqual(['eth 20 backfill'])
  expect(gaps).toEqual([10])
})

test('has ended when every client has read the last report, of an origin that lags, too', async () => {
  const { reports } = await record(10)
  const replay = await replayOf(reports, { speed: 1000, paused: true, origins: [{ lagMs: 3000 }] })
  const { stream, times } = clientOf(replay)
  await stream.connect()
  replay.resume()
  await replay.ended
  expect(times.filter(each => each.endsWith('live'))).toHaveLength(18)
})

test('streams at its own time what the recorder fetched from before its stream began', async () => {
  const { reports } = await record(10)
  const fetchedAt = (noon + 5) * 1000
  const recording = reports.map(report => {
    const second = report.observationsTimestamp - noon
    const isFetched = second < 5 || second === 7
    return isFetched ? { ...report, source: 'backfill', receivedAt: fetchedAt } : report
  })
  // A recorder writes what it fetches after what has come in the meantime.
  recording.sort((one, other) => Number(one.receivedAt) - Number(other.receivedAt))
  const replay = await replayOf(recording, { speed: 100, paused: true })
  expect(replay.unstreamed).toBe(2)
  expect(replay.now()).toBe(noon * 1000 + 499)
  const { stream, times } = clientOf(replay)
  await stream.connect()
  replay.resume()
  await replay.ended
  const live = times.filter(each => each.endsWith('live'))
  expect(live).toHaveLength(16)
  expect(live.slice(0, 4)).toEqual(['eth 0 live', 'euro 0 live', 'eth 2 live', 'euro 2 live'])
  await until(() => times.length === 18)
  const fetched = times.filter(each => each.endsWith('backfill'))
  expect(fetched.sort()).toEqual(['eth 7 backfill', 'euro 7 backfill'])
})

test('plays two origins, one of which lags and loses, and one that dies', async () => {
  const { reports } = await record()
  const replay = await replayOf(reports, {
    speed: 60,
    paused: true,
    origins: [
      { lagMs: 2000, lose: report => report.observationsTimestamp % 3 === (noon + 1) % 3 },
      {
        incidents: [
          { at: (noon + 20) * 1000, what: 'kill' },
          { at: (noon + 40) * 1000, what: 'restart' },
        ],
      },
    ],
  })
  const { stream, times } = clientOf(replay, { haMode: true }, { reconnectInterval: 200 })
  const lost: string[] = []
  stream.on('connection-lost', ({ origin }) => void lost.push(origin))
  await stream.connect()
  expect(replay.origins).toHaveLength(2)
  replay.resume()
  await until(() => new Set(times.map(each => each.replace(/ \w+$/, ''))).size === 118)
  expect(times).toHaveLength(118)
  expect(lost).toHaveLength(1)
})

test('the official client streams from it, at the time of today', async () => {
  const { reports } = await record(20)
  const replay = await replayOf(reports, { speed: 20, paused: true })
  const { endpoint, wsEndpoint, apiKey, userSecret } = replay
  const client = createOfficialClient({ apiKey, userSecret, endpoint, wsEndpoint })
  const stream = client.createStream([eth, euro])
  const seen: number[] = []
  stream.on('report', ({ observationsTimestamp }) => void seen.push(observationsTimestamp - noon))
  await stream.connect()
  replay.resume()
  await until(() => seen.length === 38)
  expect(new Set(seen).size).toBe(19)
  expect((await client.getReportByTimestamp(eth, noon + 7)).observationsTimestamp).toBe(noon + 7)
  await stream.close()
})

test('a recording without reports, or with a wrong line, is an error that names it', async () => {
  const { reports } = await record(3)
  await expect(startReplay([])).rejects.toThrow(
    'the recording has no reports: there is nothing to replay',
  )
  await expect(startReplay([...reports, { feedID: 'x', fullReport: '0x' }])).rejects.toThrow(
    'replay: record 4: feedID is 0x and 64 hex digits',
  )
  const folder = await mkdtemp(join(tmpdir(), 'sluice-replay-'))
  closers.push(() => rm(folder, { recursive: true }))
  const file = join(folder, 'cut.ndjson')
  const lines = reports.map(each => JSON.stringify(each))
  await writeFile(file, `${lines.join('\n')}\n${lines[0]?.slice(0, 200)}`)
  await expect(startReplay(file)).rejects.toThrow(
    `replay: line 5 of ${file} is cut in the middle, as after the recorder was killed`,
  )
  await writeFile(file, '')
  await expect(startReplay(file)).rejects.toThrow(`${file} has no reports`)
})

test('reads what sluice record writes: compressed files, one after the other, and a report only once', async () => {
  const { reports } = await record(20)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-replay-'))
  closers.push(() => rm(folder, { recursive: true }))
  const text = (from: number, to?: number): string =>
    reports
      .slice(from, to)
      .map(each => `${JSON.stringify(each)}\n`)
      .join('')
  const files = ['one.ndjson.gz', 'two.ndjson.gz', 'three.ndjson'].map(each => join(folder, each))
  const [one, two, three] = files as [string, string, string]
  // A recording is compressed part by part.
  await writeFile(one, Buffer.concat([gzipSync(text(0, 5)), gzipSync(text(5, 10))]))
  await writeFile(two, gzipSync(text(8, 30)))
  await writeFile(three, text(30))
  const replay = await replayOf(files, { paused: true, from: (noon + 60) * 1000 })
  expect(replay.left).toBe(0)
  const { client } = clientOf(replay)
  const page = await client.getReportsPage(eth, noon, 100)
  expect(page.map(each => each.fullReport)).toEqual(
    reports.filter(each => each.feedID === eth).map(each => each.fullReport),
  )
})

test('a damaged recording loses nothing but its damaged lines, each of which is told', async () => {
  const { reports } = await record(10)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-replay-'))
  closers.push(() => rm(folder, { recursive: true }))
  const lines = reports.map(each => JSON.stringify(each))
  const wrong = join(folder, 'wrong.ndjson')
  const cut = join(folder, 'cut.ndjson.gz')
  const damaged = ['{"feedID":', ...lines.slice(0, 9), '', 'null', lines[9]?.slice(0, 300)]
  await writeFile(wrong, damaged.join('\n'))
  const packed = gzipSync(lines.slice(9).join('\n'))
  await writeFile(cut, packed.subarray(0, packed.length - 9))
  const told: string[] = []
  const replay = await replayOf([wrong, cut], { paused: true, onDamage: each => told.push(each) })
  expect(told).toEqual([
    `replay: line 1 of ${wrong} isn't JSON`,
    `replay: line 12 of ${wrong}: feedID is 0x and 64 hex digits`,
    expect.stringContaining(`replay: line 13 of ${wrong} is cut in the middle`),
    expect.stringContaining(`replay: ${cut} ends in the middle of its compressed data`),
  ])
  // The end of the compressed data is missing, and no report.
  expect(replay.left).toBe(reports.length)
  const [first] = reports as [RecordedReport]
  await expect(startReplay([{ ...first, observationsTimestamp: 5 }])).rejects.toThrow(
    'replay: record 0: observationsTimestamp is 5, and the report is signed for',
  )
  await expect(startReplay([{ ...first, receivedAt: 1e17 }])).rejects.toThrow(
    'replay: record 0: receivedAt is milliseconds of Unix time',
  )
  await expect(startReplay(cut)).rejects.toThrow('ends in the middle of its compressed data')
  await expect(startReplay(wrong)).rejects.toThrow(/line 1 of .* isn't JSON\. Correct or remove/)
})

test('an archive of more than a mebibyte is in a file, and is read as it was written', async () => {
  const { reports } = await record(2)
  const [sample] = reports as [RecordedReport]
  async function* many() {
    for (let at = 0; at < 3000; at++) {
      const time = noon + at
      // Each report differs, and some are no lower-case hexadecimal.
      const digits = at.toString(16).padStart(8, '0')
      const end = at % 3 === 0 ? digits.toUpperCase() : digits
      // Both times stand behind the feed id.
      const times = time.toString(16).padStart(64, '0').repeat(2)
      const { fullReport: text } = sample
      const fullReport = `${text.slice(0, 578)}${times}${text.slice(706, -8)}${end}`
      yield { feedID: eth, fullReport, validFromTimestamp: time, observationsTimestamp: time }
    }
  }
  const archive = await Archive.read(readRecords(many()), { streamMissed: false, delayMs: 500 })
  closers.push(async () => archive.close())
  const expected: string[] = []
  for await (const { fullReport } of many()) expected.push(fullReport)
  const found: string[] = []
  const end = Number.POSITIVE_INFINITY
  for (let from = noon; from < noon + 3000; from += 1000)
    for (const each of archive.page(eth, from, 1000, end, end)) found.push(each.fullReport)
  expect(found).toEqual(expected)
  expect(archive.latest(eth, (noon + 7) * 1000 + 499)?.observationsTimestamp).toBe(noon + 6)
  expect([archive.length, archive.begin, archive.end - archive.begin]).toEqual([
    3000,
    noon * 1000 + 500,
    2_999_000,
  ])
})

test.each<[object, RegExp]>([
  [{ speed: 0 }, /speed must be more than 0/],
  [{ speeed: 1 }, /unknown option 'speeed' of startReplay; did you mean 'speed'/],
  [{ origins: [] }, /origins must be a list of scripts/],
  [{ origins: [{ lag: 3 }] }, /origins\[0\]/],
  [
    { origins: [{ incidents: [{ at: 1, what: 'die' }] }] },
    /origins\[0\]\.incidents\[0\]\.what must be/,
  ],
])('checks its options: %j', async (options, message) => {
  const { reports } = await record(1)
  await expect(startReplay(reports, options)).rejects.toThrow(message)
  await sleep(0)
})
