// The client of a soak, in a process of its own: its heap and its handles are nobody else's.
import { createHash } from 'node:crypto'
import { setImmediate as nextTick } from 'node:timers/promises'
import { getHeapCodeStatistics } from 'node:v8'
import { createClient } from 'sluice'

/** How often reports go out to the parent, in ms. */
const FLUSH_EVERY = 100

let reports = []
let client
let stream

function take({ feedID, observationsTimestamp, fullReport, source }) {
  const digest = createHash('md5').update(fullReport).digest('base64')
  reports.push([feedID, observationsTimestamp, digest, source])
}

async function iterate() {
  try {
    for await (const report of stream) take(report)
  } catch {
    // The stream has failed, of which `closed` tells.
  }
}

function flush() {
  if (reports.length === 0) return
  process.send({ reports })
  reports = []
}

/** How many there are of each kind of what keeps the process alive. */
function countHandles() {
  const counts = {}
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1
  return counts
}

const does = {
  async connect({ config, options, feeds }) {
    client = createClient(config)
    stream = client.createStream(feeds, options)
    stream.on('gap', gap => process.send({ gap }))
    stream.on('gap-filled', ({ gap }) => process.send({ filled: gap }))
    stream.on('error', error => process.send({ error: error.code ?? error.name }))
    stream.closed.catch(error => process.send({ ended: error.message }))
    await stream.connect()
    void iterate()
  },
  async sample() {
    // What a collection finds is freed by finalizers, which run after it, and by the collections after them.
    for (let times = 0; times < 3; times++) {
      globalThis.gc()
      await nextTick()
    }
    const { heapUsed, rss, external } = process.memoryUsage()
    // What the platform compiles is part of the heap.
    const statistics = getHeapCodeStatistics()
    const code = statistics.code_and_metadata_size + statistics.bytecode_and_metadata_size
    const { accepted, backfilled, deduplicated, outOfOrder, verified } = stream.getMetrics()
    const counts = { accepted, backfilled, deduplicated, outOfOrder, verified }
    return { heapUsed, code, rss, external, counts, handles: countHandles() }
  },
  metrics: () => stream.getMetrics(),
  async close() {
    const start = performance.now()
    await client.close()
    const ms = performance.now() - start
    clearInterval(flushing)
    flush()
    await new Promise(resolve => setTimeout(resolve, 1000))
    return { ms, handles: countHandles() }
  },
}

const flushing = setInterval(flush, FLUSH_EVERY)
for (const event of ['uncaughtException', 'unhandledRejection'])
  process.on(event, error => process.send({ unhandled: String(error?.stack ?? error) }))
process.on('message', async ({ id, what, given }) => {
  try {
    process.send({ id, value: await does[what](given) })
  } catch (error) {
    process.send({ id, failure: String(error?.stack ?? error) })
  }
})
process.on('disconnect', () => process.exit())
process.send({ ready: true })
