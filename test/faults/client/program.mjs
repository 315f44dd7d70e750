// A client in a process of its own: does what its parent says, and tells what happens to it. The same for both SDKs.
import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { setNames } from './names.mjs'
import { watchSockets } from './sockets.mjs'

const sdk = await import(`./${process.argv[2]}.mjs`)
const realNow = Date.now
let skew = 0
Date.now = () => realNow() + skew

let reports = []
let isClosing = false
let isClosed = false
const late = []

/** Reports go out together, at the end of the turn in which they came. */
function flush() {
  const sent = reports
  reports = []
  process.send({ reports: sent })
}

function send(name, value) {
  process.send({ event: name, value, at: realNow() })
}

/** Sends an event of the SDK. */
function sendEvent(name, value) {
  // The end of a connection is an event even while the stream closes.
  if (isClosed || (isClosing && name !== 'connection')) late.push(name)
  send(name, value)
}

function take(report) {
  if (isClosing) late.push('report')
  const { feedID, observationsTimestamp, fullReport } = report
  const digest = createHash('md5').update(fullReport).digest('base64')
  if (reports.push([feedID, observationsTimestamp, digest, realNow()]) === 1) setImmediate(flush)
}

const errorOf = error => ({
  name: error?.name,
  code: error?.code,
  statusCode: error?.statusCode,
  message: String(error?.message).slice(0, 500),
  isOwn: sdk.isOwnError(error),
  isSecret: isShown(`${error?.stack} ${JSON.stringify(error)}`),
})
const isShown = text => [secret, keys?.userSecret].some(each => each && text.includes(each))

// What ends the process is told, and ends it.
process.on('uncaughtExceptionMonitor', error => send('uncaught', errorOf(error)))
const sockets = watchSockets(() => process.send({ attempt: realNow() }))
let atStart = []
let slowness = 0
let secret = ''
/** What the credentials have been changed to. */
let keys
let client
let stream

/** What keeps the process alive and did not at the start. */
function handles() {
  const left = process.getActiveResourcesInfo()
  for (const each of atStart) {
    const index = left.indexOf(each)
    if (index >= 0) left.splice(index, 1)
  }
  return left
}

/** Cursors of a file. One method of theirs may hang: for `ms`, or for good. */
function storeOf(path, { method, ms } = {}) {
  const store = sdk.fileCursors(path)
  if (method === undefined) return store
  const hang = () =>
    ms === undefined ? new Promise(() => undefined) : pause(ms, undefined, { ref: false })
  return { ...store, [method]: (...given) => hang().then(() => store[method](...given)) }
}

const does = {
  async create({
    config,
    options = {},
    feeds,
    cursors,
    hangs,
    throwing,
    isDeaf,
    renews,
    clock = 0,
  }) {
    skew = clock
    // The inspection itself opens this handle: it belongs to neither SDK.
    void process.stderr
    atStart = process.getActiveResourcesInfo()
    secret = config.userSecret
    const fail = where => {
      if (throwing === where) throw new Error('mine')
    }
    const store = cursors && sdk.fileCursors && { cursors: storeOf(cursors, hangs) }
    client = await sdk.createClient({
      ...config,
      ...(renews ? { renewCredentials: () => keys ?? config } : {}),
      connectionStatusCallback(isConnected, host, origin) {
        sendEvent('connection', { isConnected, host, origin })
        fail('status')
      },
    })
    stream = client.createStream(feeds, { ...options, ...store })
    for (const name of sdk.events) stream.on(name, value => sendEvent(name, plain(name, value)))
    if (!isDeaf) stream.on('error', error => sendEvent('error', errorOf(error)))
    stream.closed?.catch(error => send('ended', errorOf(error)))
  },
  async connect({ throwing } = {}) {
    stream.on('report', report => {
      take(report)
      if (throwing === 'report') throw new Error('mine')
      if (throwing === 'promise') return Promise.reject(new Error('mine'))
    })
    await stream.connect()
  },
  /** Opens a second stream with these cursors; the error, where that fails. */
  async another({ feeds, cursors }) {
    const other = client.createStream(feeds, { cursors: storeOf(cursors) })
    other.on('error', () => undefined)
    other.closed.catch(() => undefined)
    return other.connect().then(() => undefined, errorOf)
  },
  metrics: () => stream.getMetrics(),
  /** Takes reports one by one, and stops after so many. */
  iterate({ atMost = Number.POSITIVE_INFINITY }) {
    void (async () => {
      let taken = 0
      try {
        for await (const report of sdk.reportsOf(stream)) {
          take(report)
          if (++taken >= atMost) break
          if (slowness > 0) await pause(slowness)
        }
        send('left')
      } catch (error) {
        send('left', errorOf(error))
      }
    })()
  },
  slow({ ms }) {
    slowness = ms
  },
  async call({ method, args }) {
    try {
      const value = await client[method](...args)
      return { value: JSON.stringify(value)?.slice(0, 200) ?? null }
    } catch (error) {
      return { error: errorOf(error) }
    }
  },
  subscribe: ({ feeds }) => stream.subscribe(feeds),
  unsubscribe: ({ feeds }) => stream.unsubscribe(feeds),
  names: setNames,
  keys(given) {
    keys = given
  },
  skew({ ms }) {
    skew = ms
  },
  block({ ms }) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
  },
  sample() {
    globalThis.gc()
    return {
      heap: process.memoryUsage().heapUsed,
      peak: process.resourceUsage().maxRSS * 1024,
      mostSockets: sockets.most,
    }
  },
  /** Closes everything, twice where told to, and sees what is left a second later. */
  async close({ times = 1 } = {}) {
    const start = performance.now()
    const closing = Array.from({ length: times }, () => stream?.close())
    isClosing = true
    await Promise.all(closing)
    await client?.close?.()
    const ms = performance.now() - start
    isClosed = true
    for (const end = performance.now() + 1500; performance.now() < end; ) {
      await pause(25)
      if (handles().length === 0 && performance.now() > end - 1000) break
    }
    return { ms, handles: handles(), late }
  },
}

/** A value of an event, as far as it can be told. */
function plain(name, value) {
  if (name === 'conflict') return undefined
  if (value?.error === undefined) return value
  return { ...value, error: errorOf(value.error) }
}

process.on('message', async function obey({ id, what, given }) {
  try {
    process.send({ id, value: await does[what](given) })
  } catch (error) {
    process.send({ id, error: errorOf(error) })
  }
})
process.on('disconnect', () => process.exit())
process.send({ event: 'ready' })
