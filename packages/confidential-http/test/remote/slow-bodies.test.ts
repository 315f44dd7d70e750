import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { boxKeys } from 'sluice/internal'
import type { Answering } from '../../remote/answering.js'
import { listen } from '../../remote/listen.js'
import { HOLDER_PATH } from '../../vault/process/protocol.js'
import { HolderCounts, type HolderServing, serveHolder } from '../../vault/process/start-holder.js'

/** Milliseconds within which a whole request must arrive. */
const LIMIT = 10_000
/** A request with more bytes than this is long for a holder, which reads two of strangers at a time. */
const LONG = 1_048_576
const LONG_LIMIT = 5000

beforeEach(() => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask', 'setImmediate'] })
})
const closing: (() => unknown)[] = []
afterEach(async () => {
  jest.useRealTimers()
  for (const close of closing.splice(0)) await close()
})

/** A request whose body comes byte by byte, and what is answered. */
class Drip {
  readonly #socket: Socket
  #answer = ''

  constructor(url: string, path: string, length: number, localAddress = '127.0.0.1') {
    const { port, hostname } = new URL(url)
    this.#socket = connect({ host: hostname, port: Number(port), localAddress })
    closing.push(() => this.#socket.destroy())
    this.#socket.on('error', () => undefined)
    this.#socket.on('data', chunk => {
      this.#answer += chunk
    })
    this.#socket.write(`POST ${path} HTTP/1.1\r\nhost: x\r\ncontent-length: ${length}\r\n\r\n`)
    this.drip()
  }

  drip(): void {
    this.#socket.write('.')
  }

  end(bytes: number): void {
    this.#socket.write('.'.repeat(bytes))
  }

  /** The status line of the answer, once the connection is closed. */
  get status(): Promise<string | undefined> {
    return new Promise(resolve => {
      this.#socket.on('close', () => resolve(this.#answer.split('\r\n')[0]))
    })
  }
}

/** Lets the sockets bring what they have, without moving the clock. */
const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))

/** Waits until as many reads are under way: each has a timer. */
async function reading(count: number): Promise<void> {
  while (jest.getTimerCount() < count) await turn()
}

/** Brings a byte in each second but the last. */
async function dripOn(drips: readonly Drip[], limit = LIMIT): Promise<void> {
  for (let second = 1; second < limit / 1000; second++) {
    await jest.advanceTimersByTimeAsync(1000)
    for (const each of drips) each.drip()
    await turn()
  }
}

const place = { host: '127.0.0.1', port: 0 }
const limits = { maxConnections: 9, maxConnectionsPerAddress: 9, maxSealedBytes: 1000 }

test('an idle connection stays open for longer than the minute of a load balancer', async () => {
  const answering = { bootKey: async () => ({ status: 200, body: new Uint8Array() }) }
  const { url, end } = await listen(place, answering as never, limits, undefined, {})
  const agent = new Agent({ keepAlive: true })
  closing.push(() => agent.destroy(), end)
  const { headers } = await new Promise<IncomingMessage>((resolve, reject) =>
    request(`${url}/v2/boot-key`, { agent, method: 'POST' }, resolve).on('error', reject).end(),
  )
  expect(headers['keep-alive']).toBe('timeout=65')
})

test.each(['/v2/boot-key', '/v2/requests'])(
  'an enclave refuses a body for %s that does not end in time',
  async path => {
    const lines: string[] = []
    const log = { warn: (message: string) => void lines.push(message) }
    const { url, end } = await listen(place, {} as Answering, limits, undefined, log)
    closing.push(end)
    const drip = new Drip(url, path, 1000)
    const { status } = drip
    await reading(1)
    await dripOn([drip])
    expect(lines).toEqual([])
    await jest.advanceTimersByTimeAsync(1000)
    expect(await status).toBe('HTTP/1.1 408 Request Timeout')
    expect(lines).toEqual(['rejected with 408: the request did not arrive in time'])
  },
)

test('an enclave refuses a body in too many small pieces', async () => {
  const bounds = { ...limits, maxSealedBytes: 1_000_000 }
  const { url, end } = await listen(place, {} as never, bounds, undefined, {})
  closing.push(end)
  const socket = connect(Number(new URL(url).port), '127.0.0.1')
  closing.push(() => socket.destroy())
  const head = 'POST /v2/requests HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n'
  socket.on('error', () => undefined)
  socket.write(head + '1\r\nx\r\n'.repeat(16_385))
  const said = await new Promise(resolve => socket.once('data', resolve))
  expect(String(said)).toMatch(/^HTTP\/1\.1 413 /)
})

test('a holder refuses a long body that does not end in time, and reads that of the next address', async () => {
  const counts = new HolderCounts()
  const serving = {
    ...{ keys: boxKeys(), host: '127.0.0.1', port: 0, log: {}, counts },
    holder: { callers: async () => [] },
    records: { close: async () => undefined },
  } as unknown as HolderServing
  const { url, close } = await serveHolder(serving)
  closing.push(close)
  const drips = [1, 2, 3, 4].map(() => new Drip(url, HOLDER_PATH, LONG + 1))
  const statuses = drips.slice(0, 2).map(({ status }) => status)
  await reading(2)
  const other = new Drip(url, HOLDER_PATH, LONG + 1, '127.0.0.2')
  const { status } = other
  await dripOn([...drips, other], LONG_LIMIT)
  expect(jest.getTimerCount()).toBe(2)
  await jest.advanceTimersByTimeAsync(1000)
  expect(await Promise.all(statuses)).toEqual(Array(2).fill('HTTP/1.1 408 Request Timeout'))
  other.end(LONG)
  // It is read, and no request.
  expect(await status).toBe('HTTP/1.1 400 Bad Request')
})
