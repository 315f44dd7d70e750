// A process of its own for one side: it receives so many reports and says how long that took.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { startLoad } from './load.mjs'
import { answer } from './rpc.mjs'
import { watchSockets } from './socket-reads.mjs'

const { open, decode } = await import(`./sides/${process.argv[2]}.mjs`)

/** Kept, so that no reading of it can be left out. */
let last

/** What is done with each report. */
const reads = {
  nothing() {},
  fullReport({ fullReport }) {
    last = fullReport.charCodeAt(fullReport.length - 1)
  },
  decoded(report) {
    const decoded = decode(report)
    // The official SDK has the first three in the report, not here.
    last = decoded.feedID
    last = decoded.validFromTimestamp
    last = decoded.observationsTimestamp
    last = decoded.expiresAt
    last = decoded.nativeFee
    last = decoded.linkFee
    last = decoded.price
    last = decoded.bid
    last = decoded.ask
  },
}

/** The bytes that are in use, those of buffers included. */
function memory() {
  globalThis.gc()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

/** How the event loop is held up from now on, in milliseconds. */
function watchDelay() {
  const histogram = monitorEventLoopDelay({ resolution: 1 })
  histogram.enable()
  return function read() {
    histogram.disable()
    const ms = share => histogram.percentile(share) / 1e6
    return { p50: ms(50), p99: ms(99), max: histogram.max / 1e6 }
  }
}

/**
 * Receives `count` reports, `skip` of them before the clock starts, or what comes in `forMs` milliseconds from then on;
 * with `latency`, measures how long each took from the socket's read.
 */
async function measure({ count, skip, read, forMs, latency, ...options }) {
  const look = reads[read]
  const reading = latency ? watchSockets() : undefined
  const before = memory()
  let seen = 0
  let result
  let close
  try {
    await new Promise((resolve, reject) => {
      let load
      let delay
      function finish() {
        result ??= {
          ...load(),
          delay: delay?.(),
          latency: reading?.percentiles(skip),
          reports: seen - skip,
        }
        resolve()
      }
      function take(report) {
        reading?.handled(report)
        look(report)
        seen++
        if (seen === skip) {
          load = startLoad()
          if (forMs === undefined) return
          delay = watchDelay()
          setTimeout(finish, forMs)
        } else if (seen === count) finish()
      }
      open({ ...options, take, fail: reject }).then(closeIt => {
        close = closeIt
      }, reject)
    })
    await sleep(50)
    if (forMs === undefined && seen !== count) throw new Error(`${seen} reports came, not ${count}`)
    if (last === undefined && read !== 'nothing') throw new Error('nothing was read')
    result.memory = memory() - before
  } finally {
    await close?.()
    reading?.stop()
  }
  return result
}

async function idle(ms) {
  const load = startLoad()
  const delay = watchDelay()
  await sleep(ms)
  return { ...load(), delay: delay() }
}

answer({ measure, idle })
