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
    if (opcode === 9) socket.write(pongOf(data))
  })
  const feeds = new URL(request.url, 'http://localhost').searchParams.get('feedIDs')
  sockets.set(socket, feeds)
  opened()
})

/** The pong for a short ping: it has the same payload, which came masked. */
function pongOf(ping) {
  const payload = ping.subarray(6, 6 + (ping[1] & 127)).map((byte, at) => byte ^ ping[2 + (at & 3)])
  return Buffer.from([0x8a, payload.length, ...payload])
}

/** The frames of these feeds, in bytes of their own for each `use`: all that write one lap set the same times in it. */
function lapOf(feeds, use) {
  const key = `${use} ${feeds}`
  let lap = laps.get(key)
  if (lap === undefined) {
    lap = createLap(feeds.split(','))
    laps.set(key, lap)
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

/** As many frames as go into a piece, as soon as they are taken. */
const atOnce = () => (frame, most) => Math.min(frame + PIECE, most)

/** So many frames a second. */
function atPace(rate) {
  const started = performance.now()
  return async function wait(frame, most) {
    for (;;) {
      const due = Math.floor(((performance.now() - started) * rate) / 1000)
      if (due > frame) return Math.min(due, most)
      await sleep(1)
    }
  }
}

/** Each piece so many milliseconds after it was written to others, of which `pieces` has the times. */
function behind(pieces, ms, isOver) {
  let next = 0
  const isDue = late => next < pieces.length && performance.now() >= pieces[next].at + late
  return {
    async wait(_frame, most) {
      while (!isDue(ms) && !isOver()) await sleep(1)
      return isOver() ? most : pieces[next++].end
    },
    /** The others wait for it when it is twice as late, or a client that reads it last would be spared its copies. */
    before: wait =>
      async function waitForIt(frame, most) {
        while (isDue(2 * ms) && !isOver()) await sleep(1)
        return wait(frame, most)
      },
  }
}

const areGone = receivers => receivers.every(socket => socket.destroyed)

/**
 * Sends so many seconds of these feeds to all of `receivers`, in step. `wait` says how far: it is given the number of the next
 * frame and that of the last that may be written, and returns one between. Each piece is added to `pieces`.
 */
async function send({ lap, receivers, ticks, wait, pieces = [] }) {
  const { buffer, frameLength } = lap
  const perTick = lap.frames / lap.ticks
  for (let sent = 0; sent < ticks; sent += lap.ticks) {
    // What is still on its way must not change.
    for (const socket of receivers) await drained(socket)
    if (areGone(receivers)) return
    lap.setTime(START + sent)
    const first = sent * perTick
    const most = first + Math.min(lap.ticks, ticks - sent) * perTick
    for (let frame = first; frame < most; ) {
      const end = await wait(frame, most)
      const piece = buffer.subarray((frame - first) * frameLength, (end - first) * frameLength)
      for (const socket of receivers) if (!socket.destroyed) socket.write(piece)
      pieces.push({ end, at: performance.now() })
      frame = end
    }
    await yieldToLoop()
  }
  for (const socket of receivers) await drained(socket)
}

/**
 * Sends these feeds to all in step, but to the last `lagMs` later. In a flood that one has so much of the stream before it all
 * the time: its bytes lie in no queue, but are made again.
 */
function sendGroup(feeds, receivers, { ticks, pace, lagMs }) {
  const wait = pace === undefined ? atOnce() : atPace(pace)
  if (lagMs === undefined) return send({ lap: lapOf(feeds, 'in step'), receivers, ticks, wait })
  const inStep = receivers.slice(0, -1)
  const late = receivers.slice(-1)
  const pieces = []
  const lag = behind(pieces, lagMs, () => areGone(inStep) || areGone(late))
  return Promise.all([
    send({
      ...{ lap: lapOf(feeds, 'in step'), receivers: inStep, ticks },
      ...{ wait: lag.before(wait), pieces },
    }),
    send({ lap: lapOf(feeds, 'late'), receivers: late, ticks, wait: lag.wait }),
  ])
}

async function flood({ connections, ticks, pace, lagMs }) {
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
    [...groups].map(([feeds, receivers]) =>
      sendGroup(feeds, receivers, { ticks, pace: paceOfEach, lagMs }),
    ),
  )
  return load()
}

answer({
  listen: () =>
    new Promise(resolve => server.listen(0, '127.0.0.1', () => resolve(server.address().port))),
  /** Waits for so many connections and floods them; `origins` is what clients discover; `lagMs` is how late the last of them is. */
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
