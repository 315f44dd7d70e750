import { type ChildProcess, spawn } from 'node:child_process'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { pause, until } from '../support/waiting.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const index = JSON.stringify(join(__dirname, '../../dist/esm/index.js'))
const ASLEEP = 10_000

/** A line that a program wrote, and when it came. */
interface Line {
  readonly text: string
  readonly at: number
}

/** A program with a stream of its own, in a process of its own. It writes what comes of the stream, a line each. */
function consume(wsEndpoint: string, body = '') {
  const { apiKey, userSecret, endpoint } = engine
  const config = JSON.stringify({ apiKey, userSecret, endpoint, wsEndpoint })
  const program = `
    import { createClient } from ${index}
    const stream = createClient(${config}).createStream('${ethUsd}', { maxReconnectAttempts: Infinity })
    stream.on('status', ({ type }) => console.log(type))
    stream.on('gap', gap => console.log('gap ' + JSON.stringify(gap)))
    stream.on('report', report => console.log('report ' + report.observationsTimestamp))
    await stream.connect()
    ${body}
  `
  const child = spawn(process.execPath, ['--input-type=module', '-e', program])
  const lines: Line[] = []
  let rest = ''
  child.stdout.on('data', (chunk: Buffer) => {
    const texts = (rest + chunk.toString()).split('\n')
    rest = texts.pop() ?? ''
    for (const text of texts) lines.push({ text, at: performance.now() })
  })
  child.stderr.on('data', (chunk: Buffer) => {
    lines.push({ text: `stderr: ${chunk}`, at: performance.now() })
  })
  children.push(child)
  const count = (text: string) => lines.filter(line => line.text === text).length
  const reports = () =>
    lines.filter(({ text }) => text.startsWith('report ')).map(({ text }) => Number(text.slice(7)))
  const since = (at: number, text: string) =>
    lines.find(line => line.at > at && line.text.startsWith(text))?.at
  return { child, lines, count, reports, since }
}

/** What lies between, and can forget the connections it has, without a word to either end. */
async function startMiddle(to: string) {
  const { hostname, port } = new URL(to)
  const sockets = new Set<Socket>()
  const server: Server = createServer(client => {
    const service = connect(Number(port), hostname)
    for (const [one, other] of [
      [client, service],
      [service, client],
    ] as const) {
      sockets.add(one)
      one.on('data', chunk => void other.write(chunk))
      one.on('error', () => undefined)
      one.on('close', () => {
        sockets.delete(one)
        other.destroy()
      })
    }
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}`,
    forget() {
      for (const socket of sockets) socket.removeAllListeners('data').on('data', () => undefined)
    },
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

let engine: DataEngine
const children: ChildProcess[] = []
const closers: (() => void)[] = []
beforeAll(async () => {
  engine = await startDataEngine({
    feeds: [ethUsd],
    intervalMs: 100,
    runAhead: true,
    history: 0,
  })
})
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  for (const close of closers) close()
  await engine.close()
})

const published = () => engine.ledger().map(({ observationsTimestamp }) => observationsTimestamp)

async function sleepThrough(
  { child }: { readonly child: ChildProcess },
  meanwhile = () => {},
): Promise<number> {
  child.kill('SIGSTOP')
  await pause(1000)
  meanwhile()
  await pause(ASLEEP - 1000)
  child.kill('SIGCONT')
  return performance.now()
}

test('a process that was stopped is back, and has lost nothing', async () => {
  const program = consume(engine.wsEndpoint)
  await until(() => program.reports().length > 5)
  await sleepThrough(program)
  const latest = published().at(-1) as number
  await until(() => program.reports().includes(latest))
  await pause(3000)
  expect(program.count('connected')).toBe(1)
  expect(program.count('disconnected')).toBe(0)
  const got = program.reports()
  const [first = 0] = got
  const last = got.at(-1) as number
  expect(got).toEqual(published().filter(time => time >= first && time <= last))
}, 30_000)

test('a connection that died while the process was stopped is noticed after waking, though its last words are unread', async () => {
  const middle = await startMiddle(engine.wsEndpoint)
  closers.push(middle.close)
  const program = consume(middle.url)
  await until(() => program.reports().length > 5)
  const wokenAt = await sleepThrough(program, middle.forget)
  await until(() => program.since(wokenAt, 'disconnected') !== undefined)
  await until(() => program.since(wokenAt, 'connected') !== undefined)
  expect(program.count('connected')).toBe(2)
}, 30_000)

test('a process that was busy, and stays so, keeps its healthy connection', async () => {
  // Nothing but the answers to pings comes over it.
  const quiet = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, history: 0 })
  closers.push(() => void quiet.close())
  const program = consume(
    quiet.wsEndpoint,
    `const block = ms => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
     setTimeout(function beBusy() {
       block(7000)
       const end = performance.now() + 6000
       setImmediate(function stayBusy() {
         block(700)
         if (performance.now() < end) setImmediate(stayBusy)
         else console.log('done')
       })
     }, 500)`,
  )
  await until(() => program.count('done') === 1)
  await pause(1000)
  expect(program.count('disconnected')).toBe(0)
  expect(program.count('connected')).toBe(1)
}, 40_000)
