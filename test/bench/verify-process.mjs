// A process of its own that verifies published reports, of two signatures each.
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { verify } from 'sluice/plugins/verify'
import { answer } from './rpc.mjs'

const file = new URL('../vectors/published-reports.json', import.meta.url)
const published = JSON.parse(readFileSync(file, 'utf8')).reports
const signers = { signers: [...new Set(published.flatMap(report => report.signers))], f: 1 }
const reports = published.map(({ feedID, fullReport, decoded }) => ({
  feedID,
  fullReport,
  validFromTimestamp: Number(decoded.validFromTimestamp),
  observationsTimestamp: Number(decoded.observationsTimestamp),
}))
if (published.some(report => report.signers.length !== 2))
  throw new Error('a report has other than two signatures')

/** As many as lie with a verifier at a time, so that it has work. */
const AHEAD = 128

function start({ curveLibrary, workers }) {
  let end
  let verifier
  verify({ signers, curveLibrary, workers }).setup({
    place() {},
    has: () => false,
    stack: [],
    provide(_key, made) {
      verifier ??= made
    },
    defer(task) {
      end = task
    },
  })
  let done = 0
  let given = 0
  let notify
  function give() {
    // Each is new: what was verified is remembered.
    verifier.check({ ...reports[given++ % reports.length] }, failure => {
      // A closed verifier fails the checks under way.
      if (failure?.code === 'CLOSED') return
      if (failure !== undefined) throw failure
      done++
      notify?.()
    })
  }
  return {
    give,
    count: () => done,
    end: () => end(),
    onDone(callback) {
      notify = callback
    },
    one: () =>
      new Promise(resolve => {
        notify = resolve
        give()
      }),
  }
}

answer({
  /** How many reports are verified in a second, if there are always more. */
  async rate({ forMs, ...options }) {
    const side = start(options)
    await side.one()
    side.onDone(side.give)
    for (let each = 0; each < AHEAD; each++) side.give()
    await sleep(forMs / 4)
    const before = side.count()
    const started = performance.now()
    await sleep(forMs)
    const rate = (1000 * (side.count() - before)) / (performance.now() - started)
    side.end()
    return rate
  },

  /** How the event loop is held up, in milliseconds, by so many reports a second; none, where nothing is verified. */
  async delay({ pace, forMs, ...options }) {
    const side = options.curveLibrary === undefined ? undefined : start(options)
    await side?.one()
    const histogram = monitorEventLoopDelay({ resolution: 1 })
    histogram.enable()
    const started = performance.now()
    let given = 0
    while (performance.now() - started < forMs) {
      const due = ((performance.now() - started) * pace) / 1000
      for (; given < due; given++) side?.give()
      await sleep(1)
    }
    histogram.disable()
    const ms = share => histogram.percentile(share) / 1e6
    const result = { p50: ms(50), p99: ms(99), max: histogram.max / 1e6 }
    const behind = side === undefined ? 0 : given - side.count() + 1
    side?.end()
    return { ...result, behind }
  },
})
