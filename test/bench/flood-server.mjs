// A process of its own: a service that sends frames made beforehand, as fast as they are taken or at a given pace, and
// answers the few requests that clients make on the way.
import { createHash } from 'node:crypto'
import { createServer } from 'node:http'
import { setTimeout as sleep, setImmediate as yieldToLoop } from 'node:timers/promises'
import { createLap, makeReport, START } from './frames.mjs'
import { startLoad } from './load.mjs'
import { answer } from './rpc.mjs'

const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11'
/** Frames written at once to one connection, before the next has its turn. */
const PIECE = 40

let origins = ['001']
let sockets = new Map()
let opened = () => {}
let sending = Promise.resolve()
const laps = new Map()

const latest = JSON.stringify({ report: makeReport({}) })
const server = createServer((_request, response) => {
  response.setHeader('x-cll-available-origins', `{${origins}}`)
  response.setHeader('content-type', 'application/json')
  response.end(latest)
})
server.keepAliveTimeout = 60_000

server.on('upgrade', (request, socket) => {
  const key = createHash('sha1')
    .update(request.headers['sec-websocket-key'] + GUID)
    .digest('base64')
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${key}\r\n\r\n`,
  )
  socket.setNoDelay()
  socket.on('error', () => socket.destroy())
  socket.on('data', data => {
    const opcode = data[0] & 15
    if (opcode === 8) socket.end(Buffer.from([0x88, 0]))
    if (opcode === 9) socket.write(Buffer.from([0x8a, 0]))
  })
  const feeds = new URL(request.url, 'http://localhost').searchParams.get('feedIDs')
  sockets.set(socket, feeds)
  opened()
})

function lapOf(feeds) {
  let lap = laps.get(feeds)
  if (lap === undefined) {
    lap = createLap(feeds.split(','))
    laps.set(feeds, lap)
  }
  return lap
}

function drained(socket) {
  if (socket.destroyed || socket.writableLength === 0) return undefined
  return new Promise(resolve => {
    function done() {
      socket.off('drain', done).off('close', done)
      resolve()
    }
    socket.on('drain', done).on('close', done)
  })
}

/** Sends so many seconds of these feeds to all who asked for them, in step. */
async function send(feeds, receivers, ticks, pace) {
  const lap = lapOf(feeds)
  const { buffer, frameLength } = lap
  const perTick = lap.frames / lap.ticks
  const started = performance.now()
  for (let sent = 0; sent < ticks; sent += lap.ticks) {
    // What is still on its way must not change.
    for (const socket of receivers) await drained(socket)
    if (receivers.every(socket => socket.destroyed)) return
    lap.setTime(START + sent)
    const frames = Math.min(lap.ticks, ticks - sent) * perTick
    const before = sent * perTick
    for (let frame = 0; frame < frames; ) {
      let end = Math.min(frame + PIECE, frames)
      if (pace !== undefined) {
        const due = Math.floor(((performance.now() - started) * pace) / 1000) - before
        end = Math.min(due, frames)
        if (end <= frame) {
          await sleep(1)
          continue
        }
      }
      const piece = buffer.subarray(frame * frameLength, end * frameLength)
      for (const socket of receivers) if (!socket.destroyed) socket.write(piece)
      frame = end
    }
    await yieldToLoop()
  }
  for (const socket of receivers) await drained(socket)
}

async function flood({ connections, ticks, pace }) {
  await new Promise(resolve => {
    opened = () => sockets.size >= connections && resolve()
    opened()
  })
  // The client is to know that it is connected, and do what it does then, before the work begins.
  await sleep(20)
  const groups = new Map()
  for (const [socket, feeds] of sockets) groups.set(feeds, [...(groups.get(feeds) ?? []), socket])
  const load = startLoad()
  const paceOfEach = pace === undefined ? undefined : pace / groups.size
  await Promise.all(
    [...groups].map(([feeds, receivers]) => send(feeds, receivers, ticks, paceOfEach)),
  )
  return load()
}

answer({
  listen: () =>
    new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(server.address().port))),
  /** Waits for so many connections and floods them; `origins` is what clients discover. */
  arm(plan) {
    for (const socket of sockets.keys()) socket.destroy()
    sockets = new Map()
    origins = plan.origins
    sending = flood(plan)
    sending.catch(() => {})
  },
  /** Resolves when all is sent, with how busy the server was. */
  sent: () => sending,
})
