import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { createClient, decodeReport } from '@chainlink/data-streams-sdk'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { AbiCoder, concat, keccak256, recoverAddress } from 'ethers'
import type { Hex } from 'viem'
import { WebSocket } from 'ws'
import { failureOf, pause, until } from '../waiting.js'
import { encodeBlob, encodeFullReport } from './report.js'
import {
  feedID,
  makeNetwork,
  type Report,
  requestSignature,
  type Service,
  signedHeaders,
  startService,
} from './service.js'
import { signedHash } from './signatures.js'

const crypto = feedID(3)
const fast = feedID(3, 2, { milliseconds: true })
const forbidden = feedID(3, 99)
const others = [2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13].map(version => feedID(version))

let service: Service
beforeAll(async () => {
  service = await startService({ feeds: [crypto, fast, ...others, feedID(1), feedID(14)] })
})
afterAll(() => service.close())

const FULL_REPORT = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32']

/** The parts of a full report, by ethers: the service encodes with viem. */
function partsOf(fullReport: string): {
  context: Hex[]
  blob: Hex
  rs: Hex[]
  ss: Hex[]
  vs: Hex
} {
  const [context, blob, rs, ss, vs] = AbiCoder.defaultAbiCoder().decode(FULL_REPORT, fullReport)
  return { context: [...context], blob, rs: [...rs], ss: [...ss], vs }
}

function signersOf(fullReport: string): string[] {
  const { context, blob, rs, ss, vs } = partsOf(fullReport)
  const hash = keccak256(concat([keccak256(blob), ...context]))
  return rs.map((r, i) => {
    const v = Number.parseInt(vs.slice(2 + 2 * i, 4 + 2 * i), 16) + 27
    return recoverAddress(hash, { r, s: ss[i] as string, v }).toLowerCase()
  })
}

async function get(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...signedHeaders({ method: init.method ?? 'GET', path }, service) }
  return fetch(service.endpoint + path, { ...init, headers: { ...headers, ...init.headers } })
}

interface RawClient {
  readonly webSocket: WebSocket
  readonly frames: { readonly data: Buffer; readonly isBinary: boolean }[]
  readonly times: () => number[]
}

async function open(
  feeds: string[],
  origin = '001',
  base: string = service.wsEndpoint,
): Promise<RawClient> {
  const path = `/api/v1/ws?feedIDs=${feeds.join(',')}`
  const webSocket = new WebSocket(base + path, {
    headers: { ...signedHeaders({ method: 'GET', path }, service), 'X-Cll-Origin': origin },
  })
  const frames: RawClient['frames'] = []
  webSocket.on('message', (data: Buffer, isBinary) => frames.push({ data, isBinary }))
  await new Promise((resolve, reject) => webSocket.once('open', resolve).once('error', reject))
  const times = () =>
    frames.map(({ data }) => JSON.parse(String(data)).report.observationsTimestamp)
  return { webSocket, frames, times }
}

const closeOf = (webSocket: WebSocket): Promise<number> =>
  new Promise(resolve => webSocket.on('error', () => {}).once('close', resolve))

describe('published data', () => {
  const read = (name: string) =>
    JSON.parse(readFileSync(`${process.cwd()}/test/vectors/${name}`, 'utf8'))

  test('request signatures agree with the published ones', () => {
    for (const vector of read('hmac.json').vectors)
      expect(requestSignature(vector, vector, vector.timestamp)).toBe(vector.signature)
  })

  test('published reports are encoded to the same bytes, and their signers recovered', () => {
    const { reports } = read('published-reports.json')
    expect(reports.length).toBeGreaterThan(10)
    for (const [i, { feedID: id, decoded, fullReport, signers }] of reports.entries()) {
      const { context, blob, ...signatures } = partsOf(fullReport)
      expect(encodeBlob(id, decoded)).toBe(blob)
      expect(encodeFullReport(context, blob, signatures)).toBe(fullReport)
      expect(signedHash(context, blob)).toBe(keccak256(concat([keccak256(blob), ...context])))
      if (i < 3) expect(signersOf(fullReport)).toEqual(signers)
    }
  })
})

describe('reports', () => {
  test('chain in the unit of their feed', () => {
    for (const id of [crypto, fast]) {
      const first = service.skip(id)
      const second = service.skip(id, { observed: first.observed + 5 })
      expect(second.validFrom).toBe(first.observed + 1)
      expect(service.skip(id).validFrom).toBe(second.observed + 1)
      expect(String(first.observed)).toHaveLength(id === fast ? 13 : 10)
    }
  })

  test('are signed by f + 1 distinct signers of the network', () => {
    const { signers, f, configDigest } = service.network
    const { fullReport } = service.skip(crypto)
    expect(new Set(signersOf(fullReport)).size).toBe(f + 1)
    expect(signers).toEqual(expect.arrayContaining(signersOf(fullReport)))
    expect(partsOf(fullReport).context[0]).toBe(configDigest)
  })

  test('are forged in each way that is asked for', () => {
    const { signers } = service.network
    const inside = (report: Report) =>
      signersOf(report.fullReport).filter(signer => signers.includes(signer as Hex)).length
    expect(inside(service.skip(crypto, { signatures: 'outsider' }))).toBe(1)
    expect(inside(service.skip(crypto, { signatures: 'tampered' }))).toBe(0)
    const repeated = signersOf(service.skip(crypto, { signatures: 'repeated' }).fullReport)
    expect(new Set(repeated).size).toBe(1)
    expect(partsOf(service.skip(crypto, { signatures: 'too-few' }).fullReport).rs).toHaveLength(1)
    const network = makeNetwork({ name: 'next' })
    expect(inside(service.skip(crypto, { network }))).toBe(0)
    const envelope = { feedID: fast, validFromTimestamp: undefined }
    const forged = JSON.parse(service.skip(crypto, { envelope }).json)
    expect(forged.feedID).toBe(fast)
    expect(forged).not.toHaveProperty('validFromTimestamp')
    expect(partsOf(forged.fullReport).blob.slice(0, 66)).toBe(crypto)
  })

  test('of all versions are made, and those the official SDK knows it decodes', () => {
    for (const id of [crypto, ...others]) {
      const report = service.skip(id)
      const decoded = decodeReport(report.fullReport, id)
      expect(decoded.version).toBe(`V${Number.parseInt(id.slice(2, 6), 16)}`)
      expect(BigInt(`0x${partsOf(report.fullReport).blob.slice(130, 194)}`)).toBe(
        BigInt(report.observed),
      )
    }
    const negative = service.skip(crypto, { fields: { price: -5n } })
    expect(decodeReport(negative.fullReport, crypto)).toMatchObject({ price: -5n })
    expect((partsOf(service.skip(feedID(14)).fullReport).blob.length - 2) / 64).toBe(17)
    expect((partsOf(service.skip(feedID(1)).fullReport).blob.length - 2) / 64).toBe(9)
  })
})

describe('REST', () => {
  const feed = feedID(3, 7)
  const reports: Report[] = []
  beforeAll(() => {
    service.feeds.add(feed)
    for (let i = 0; i < 12; i++)
      reports.push(service.store(feed, { observed: 1_700_000_000 + 2 * i }))
  })
  const observed = async (response: Response) =>
    ((await response.json()) as { reports: { observationsTimestamp: number }[] }).reports.map(
      report => report.observationsTimestamp,
    )

  test('answers what is asked for', async () => {
    const feeds = (await (await get('/api/v1/feeds')).json()) as { feeds: object[] }
    expect(feeds.feeds).toContainEqual({ feedID: crypto })
    const latest = await get(`/api/v1/reports/latest?feedID=${feed}`)
    expect(await latest.json()).toEqual({ report: JSON.parse((reports[11] as Report).json) })
    const between = await get(`/api/v1/reports?feedID=${feed}&timestamp=1700000003`)
    expect(await between.json()).toMatchObject({ report: { observationsTimestamp: 1_700_000_004 } })
    const page = `/api/v1/reports/page?feedID=${feed}&startTimestamp=`
    expect(await observed(await get(`${page}1700000002`))).toEqual(
      reports.slice(1, 11).map(report => report.observed),
    )
    expect(await observed(await get(`${page}1700000019&limit=50`))).toEqual([
      1700000020, 1700000022,
    ])
    const bulk = await get(`/api/v1/reports/bulk?feedIDs=${feed}%2C${fast}&timestamp=1700000002`)
    expect([bulk.status, await observed(bulk)]).toEqual([206, [1700000002]])
  })

  test('refuses what is not signed, not allowed or malformed, with a message', async () => {
    const path = `/api/v1/reports/latest?feedID=${feed}`
    const late = signedHeaders({ method: 'GET', path }, service, Date.now() - 6_000)
    const wrong = signedHeaders({ method: 'GET', path: `${path}0` }, service)
    const unknown = signedHeaders({ method: 'GET', path }, { apiKey: 'x', userSecret: 'y' })
    for (const headers of [late, wrong, unknown])
      expect((await fetch(service.endpoint + path, { headers })).status).toBe(401)
    expect((await fetch(service.endpoint + path)).status).toBe(400)
    const foreign = await get(`/api/v1/reports/latest?feedID=${forbidden}`)
    expect([foreign.status, await foreign.json()]).toEqual([401, { message: 'feed not allowed' }])
    expect((await get('/api/v1/reports/latest?feedID=0x00')).status).toBe(400)
    expect((await get(`/api/v1/reports/page?feedID=${feed}&startTimestamp=x`)).status).toBe(400)
  })

  test('fails as often as asked, or never answers', async () => {
    const fault = service.fail({
      on: 'rest',
      answer: 503,
      times: 2,
      headers: { 'Retry-After': '1' },
    })
    const failed = await get('/api/v1/feeds')
    expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, '1'])
    expect((await get('/api/v1/feeds')).status).toBe(503)
    expect((await get('/api/v1/feeds')).status).toBe(200)
    expect(fault.hits).toBe(2)
    const hang = service.fail({ on: 'rest', answer: 'hang', path: '/api/v1/feeds' })
    const before = service.requestsTo('/api/v1/feeds').length
    const controller = new AbortController()
    const asked = failureOf(get('/api/v1/feeds', { signal: controller.signal }))
    await until(() => hang.hits === 1)
    await pause(50)
    controller.abort()
    expect((await asked).name).toBe('AbortError')
    const requests = service.requestsTo('/api/v1/feeds').slice(before)
    expect(requests.map(({ status }) => status)).toEqual([undefined])
    hang.stop()
    expect((await get('/api/v1/feeds')).status).toBe(200)
  })

  test('answers pages with what they should not contain when asked to', async () => {
    const path = `/api/v1/reports/page?feedID=${feed}&startTimestamp=1700000002&limit=2`
    const [older, first, second] = reports as [Report, Report, Report]
    service.changePages(feed, (page, start, limit) => {
      expect([page, start, limit]).toEqual([[first, second], 1_700_000_002, 2])
      return [older, ...page, first]
    })
    const times = [older, first, second, first].map(report => report.observed)
    expect(await observed(await get(path))).toEqual(times)
    service.changePages(feed)
    expect(await observed(await get(path))).toEqual(times.slice(1, 3))
  })

  test('gives wrong answers when asked to, also to upgrades', async () => {
    const wrong = await startService({ feeds: [crypto] })
    wrong.changeAnswers((request, answer) =>
      request.upgrade ? { status: 418, body: '' } : { ...answer, status: answer.status + 1 },
    )
    wrong.changeAnswers((_request, answer) => ({ ...answer, body: `${answer.status}` }))
    const headers = signedHeaders({ method: 'GET', path: '/api/v1/feeds' }, wrong)
    const answer = await fetch(`${wrong.endpoint}/api/v1/feeds`, { headers })
    expect([answer.status, await answer.text()]).toEqual([201, '201'])
    await expect(open([crypto], '001', wrong.wsEndpoint)).rejects.toThrow('418')
    await wrong.close()
  })

  test('lists the streams for everybody, and refuses dates that are none', async () => {
    const catalogue = `${service.endpoint}/api/v1/discovery`
    const answer = await fetch(`${catalogue}?status=live`)
    expect([answer.status, answer.headers.get('cache-control')]).toEqual([
      200,
      'public, max-age=300',
    ])
    const listed = expect.objectContaining({ feedId: crypto, schemaVersion: 'V3' })
    expect(await answer.json()).toEqual({ feeds: expect.arrayContaining([listed]) })
    const refused = await fetch(`${catalogue}?created_after=yesterday`)
    expect([refused.status, await refused.json()]).toEqual([400, { error: expect.any(String) }])
  })

  test('stores late when asked to', async () => {
    const report = service.publish(feed, { observed: 1_700_000_100, storeAfter: 300 })
    const path = `/api/v1/reports/page?feedID=${feed}&startTimestamp=${report.observed}`
    expect(await observed(await get(path))).toEqual([])
    await pause(310)
    expect(await observed(await get(path))).toEqual([report.observed])
  })
})

describe('origins', () => {
  test('are discovered, selected, and replaced when unknown', async () => {
    const head = await get('/', { method: 'HEAD' })
    expect([head.status, head.headers.get('x-cll-available-origins')]).toEqual([200, '{001,002}'])
    const client = await open([crypto], '002')
    expect(service.origin('002').open).toBe(1)
    const lost = await open([crypto], '777')
    expect(service.origin('001').open).toBe(1)
    client.webSocket.close()
    lost.webSocket.close()
    await until(() => service.open === 0)
    expect(service.origin('002').pastConnections.at(-1)?.closed).toMatchObject({ code: 1005 })
  })

  test('send binary frames of the feeds subscribed to, each origin what is meant for it', async () => {
    const [a, b] = [await open([crypto], '001'), await open([crypto], '002')]
    const both = service.send(crypto)
    const one = service.send(crypto, { to: ['002'] })
    service.send(fast)
    service.sendFrame('text')
    await until(() => a.frames.length === 2 && b.frames.length === 3)
    expect(String(a.frames[0]?.data)).toBe(`{"report":${both.json}}`)
    expect(a.frames.map(({ isBinary }) => isBinary)).toEqual([true, false])
    expect(b.frames[1]?.data.equals(one.frame)).toBe(true)
    a.webSocket.close()
    b.webSocket.close()
  })

  test('lag and replay', async () => {
    const origin = service.origin('001')
    const client = await open([crypto])
    origin.lag({ reports: 2 })
    const sent = Array.from({ length: 5 }, () => service.send(crypto).observed)
    await until(() => client.frames.length === 3)
    await pause(10)
    expect(client.times()).toEqual(sent.slice(0, 3))
    origin.lag()
    await until(() => client.frames.length === 5)
    origin.lag({ ms: 30 })
    const start = performance.now()
    service.send(crypto)
    await until(() => client.frames.length === 6)
    expect(performance.now() - start).toBeGreaterThanOrEqual(29)
    origin.lag()
    origin.replay(2)
    origin.replayOnConnect(3)
    const second = await open([crypto])
    await until(() => client.frames.length === 8 && second.frames.length === 3)
    expect(client.times().slice(6)).toEqual(client.times().slice(4, 6))
    expect(second.times()).toEqual(client.times().slice(3, 6))
    origin.replayOnConnect(0)
    client.webSocket.close()
    second.webSocket.close()
  })

  test('are mute or frozen, and revive', async () => {
    const origin = service.origin('001')
    const { webSocket, frames } = await open([crypto])
    let pongs = 0
    webSocket.on('pong', () => pongs++)
    origin.mute()
    service.send(crypto)
    webSocket.ping()
    await until(() => pongs === 1)
    origin.freeze()
    webSocket.ping()
    service.send(crypto)
    await pause(30)
    expect([pongs, frames.length]).toEqual([1, 0])
    origin.revive()
    service.send(crypto)
    await until(() => pongs === 2 && frames.length === 1)
    expect(origin.connections[0]?.pings).toBe(2)
    webSocket.close()
  })

  test('close with a code, refuse upgrades, and limit connections', async () => {
    const { webSocket } = await open([crypto])
    const closed = closeOf(webSocket)
    service.origin('001').disconnect(1012, 'restart')
    expect(await closed).toBe(1012)
    service.fail({ on: 'upgrade', answer: 504, times: 1 })
    expect((await failureOf(open([crypto]))).message).toContain('504')
    expect((await failureOf(open([forbidden]))).message).toContain('401')
    await until(() => service.open === 0)
    service.maxConnections = 1
    const only = await open([crypto])
    expect((await failureOf(open([crypto], '002'))).message).toContain('429')
    service.maxConnections = 20
    only.webSocket.close()
  })

  test('are killed and restarted', async () => {
    const origin = service.origin('001')
    const own = service.wsEndpointOf('001')
    const client = await open([crypto], '002', own)
    expect(origin.connections.at(-1)?.request.headers['x-cll-origin']).toBe('002')
    const closed = closeOf(client.webSocket)
    await origin.kill()
    expect(await closed).toBe(1006)
    expect((await failureOf(open([crypto], '001', own))).message).toContain('ECONNREFUSED')
    expect((await failureOf(open([crypto], '001'))).message).toMatch(/ECONNRESET|hang up/)
    await origin.kill('refuse')
    expect((await failureOf(open([crypto], '001'))).message).toContain('503')
    await origin.kill('elsewhere')
    const elsewhere = await open([crypto], '001')
    expect(service.origin('002').open).toBe(1)
    elsewhere.webSocket.close()
    await origin.restart()
    ;(await open([crypto], '001', own)).webSocket.close()
    await service.stop()
    const refused = connect(Number(new URL(service.endpoint).port), '127.0.0.1')
    const error = await new Promise<Error>(resolve => refused.once('error', resolve))
    expect(error.message).toContain('ECONNREFUSED')
    await service.start()
    expect((await get('/api/v1/feeds')).status).toBe(200)
  })
})

describe('the official SDK', () => {
  test('reads feeds and reports over REST', async () => {
    const client = createClient(service)
    const feed = feedID(8)
    const reports = Array.from({ length: 3 }, () => service.store(feed))
    const [first, , last] = reports as [Report, Report, Report]
    expect((await client.listFeeds()).map(({ feedID }) => feedID)).toContain(feed)
    expect(await client.getLatestReport(feed)).toMatchObject({ fullReport: last.fullReport })
    expect((await client.getReportsPage(feed, first.observed, 2)).length).toBe(2)
    const [found] = await client.getReportsBulk([feed, crypto], first.observed)
    expect(found?.fullReport).toBe(first.fullReport)
    const byTime = await client.getReportByTimestamp(feed, first.observed)
    expect(byTime.fullReport).toBe(first.fullReport)
    await expect(client.getLatestReport(forbidden)).rejects.toThrow()
  })

  test('streams from both origins and drops what came twice', async () => {
    const stream = createClient({ ...service, haMode: true }).createStream([crypto])
    const received: string[] = []
    stream.on('report', ({ fullReport }) => received.push(fullReport))
    stream.on('error', () => {})
    await stream.connect()
    await until(() => service.origins.every(({ open }) => open === 1))
    const sent = Array.from({ length: 3 }, () => service.publish(crypto).fullReport)
    await until(() => stream.getMetrics().totalReceived === 6)
    expect(received).toEqual(sent)
    expect(stream.getMetrics().deduplicated).toBe(3)
    await stream.close()
  })
})
