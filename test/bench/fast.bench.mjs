// What each part of the fast path buys: µs of processor time for one report, with the part and without it, in turns.
import { once } from 'node:events'
import { WebSocketServer } from 'ws'
import { createLap, feedIDs } from './frames.mjs'
import { fromSource } from './from-source.mjs'
import { alternate, spread } from './rounds.mjs'
import { short } from './table.mjs'

const rounds = 15
const lapsPerRound = 20
const MAX_MESSAGE_BYTES = 1_048_576

const {
  createMessageReader,
  createDecoderTable,
  createPlainDecoder,
  createSIMDDecoder,
  fastPath,
  openWebSocket,
  parseFrame,
  toReport,
  writeText,
} = await fromSource(
  'client/fast/index',
  'client/fast/message',
  'client/stream/intake',
  'platform/bytes',
  'platform/socket',
  'report/decoder',
  'report/digits/digits',
  'report/digits/simd',
  'report/report',
)

/** Connections to a server that sends all these bytes for each message it gets. */
async function openSockets(bytes) {
  const server = new WebSocketServer({ port: 0 })
  server.on('connection', (socket, { socket: raw }) => socket.on('pong', () => raw.write(bytes)))
  await once(server, 'listening')
  const upgrade = {
    url: `ws://localhost:${server.address().port}`,
    headers: new Headers(),
    compression: false,
    maxMessageBytes: MAX_MESSAGE_BYTES,
  }
  let left = 0
  let done
  async function open(isFast) {
    let opened
    const isOpen = new Promise(resolve => {
      opened = resolve
    })
    const socket = await openWebSocket(
      upgrade,
      {
        opened,
        message() {
          if (--left === 0) done()
        },
        alive() {},
        refused() {},
        ended() {},
      },
      { refusal: { bytes: 0, ms: 0 }, isFast },
    )
    await isOpen
    return socket
  }
  const [fast, documented] = [await open(true), await open(false)]
  return {
    receive(isFast, count) {
      left = count
      return new Promise(resolve => {
        done = resolve
        ;(isFast ? fast : documented).pong()
      })
    },
    close() {
      fast.terminate()
      documented.terminate()
      server.close()
    },
  }
}

export default async function bench() {
  const ids = feedIDs(40)
  const lap = createLap(ids)
  const { buffer, frames, frameLength } = lap
  const messages = Array.from({ length: frames }, (_, index) =>
    buffer.subarray(index * frameLength + 4, (index + 1) * frameLength),
  )
  const table = createDecoderTable([])
  const feeds = new Map(ids.map(feedID => [feedID, { feedID, reports: 0, isSubscribed: true }]))
  const readMessage = createMessageReader(feeds, table)
  const sources = ['one', 'two'].map(origin => ({
    origin,
    traffic: {},
    place: { next: 0, lead: 0 },
  }))

  const sockets = await openSockets(buffer)
  const { fullReport } = JSON.parse(String(messages[0])).report
  const size = 262_144
  const into = size / 2
  const simd = createSIMDDecoder(size, into)
  const memory = new ArrayBuffer(size)
  const plain = createPlainDecoder(new DataView(memory, 0, into), new DataView(memory, into))
  writeText(new Uint8Array(memory), fullReport)
  writeText(new Uint8Array(simd.memory), fullReport)
  const digits = decode => () => {
    for (let index = 0; index < frames; index++) decode(2, fullReport.length - 2)
  }

  const readTwice = fastPath.createReader(feeds, table)
  const first = () => {
    for (const message of messages) readTwice(message, sources[0])
  }
  first()

  const parts = [
    [
      'messages read from the socket, against ws, with the server in the same process',
      () => sockets.receive(true, frames),
      () => sockets.receive(false, frames),
    ],
    [
      'messages scanned in place, against parseFrame and toReport',
      () => {
        for (const message of messages) readMessage(message, 'one')
      },
      () => {
        for (const message of messages) toReport(parseFrame(message), 'one', table, 'live')
      },
    ],
    [
      'duplicates found by their bytes, against messages scanned in place',
      () => {
        for (const message of messages.slice(-400)) readTwice(message, sources[1])
      },
      () => {
        for (const message of messages.slice(-400)) readMessage(message, 'two')
      },
      400,
    ],
    [
      'hexadecimal digits by WebAssembly, against the table of JavaScript',
      digits(simd.decodeDigits),
      digits(plain),
    ],
  ]
  // So that the cache has the last 400 messages.
  readTwice(messages[0], sources[1])
  for (const message of messages.slice(-400)) readTwice(message, sources[0])

  const results = []
  for (const [work, fast, documented, count = frames] of parts) {
    const sides = { fast, documented }
    const times = await alternate(['fast', 'documented'], { rounds, warmup: 3 }, async side => {
      const started = process.cpuUsage()
      for (let number = 0; number < lapsPerRound; number++) await sides[side]()
      const { user, system } = process.cpuUsage(started)
      return (user + system) / (lapsPerRound * count)
    })
    const saved = spread(times.documented.map((time, round) => time - times.fast[round]))
    const [mine, other] = [spread(times.fast), spread(times.documented)]
    results.push({
      work,
      goal: '',
      figure: `${short(saved.median)} µs saved`,
      spread: `${short(saved.min)} to ${short(saved.max)}, ${rounds} rounds`,
      isMet: undefined,
      detail: `${short(mine.median)} µs, without it ${short(other.median)} µs`,
      median: saved.median,
      min: saved.min,
      max: saved.max,
      rounds,
      unit: 'µs saved',
      better: 'more',
    })
  }
  sockets.close()
  return results
}
