// What the monitor costs with many feeds, in its process and in the page: node test/browser/monitor-load.mjs [--feeds 500]
// [--rate 2000] [--origins 2] [--seconds 30]. Needs a build. The engine is a process of its own.
import { fork } from 'node:child_process'
import { get } from 'node:http'
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { startDataEngine } from '@sluice/engine'
import { openBrowser } from './devtools.mjs'
import { envOf, startMonitor } from './monitor-world.mjs'

const { feeds, rate, origins, seconds, engine } = parseArgs({
  options: {
    feeds: { type: 'string', default: '500' },
    rate: { type: 'string', default: '2000' },
    origins: { type: 'string', default: '2' },
    seconds: { type: 'string', default: '30' },
    engine: { type: 'boolean', default: false },
  },
}).values
const WARMUP = 10_000

/** Runs the engine, and answers how many reports it has published and how busy it was. */
async function runEngine() {
  const ids = Array.from(
    { length: Number(feeds) },
    (_, index) => `0x1003${String(index).padStart(60, '0')}`,
  )
  const running = await startDataEngine({
    feeds: ids,
    intervalMs: (1000 * ids.length) / Number(rate),
    origins: Number(origins),
    history: 1,
    retain: 10,
    compression: false,
  })
  process.send(envOf(running))
  process.on('disconnect', () => process.exit())
}

/** Reads the messages as a page does, and notes what the monitor says of itself. */
function readMessages(url) {
  const seen = { messages: 0, bytes: 0, most: 0, loads: [], latest: {} }
  const asked = get(`${url}events`, response => {
    let rest = ''
    response.setEncoding('utf8')
    response.on('data', chunk => {
      const events = (rest + chunk).split('\n\n')
      rest = events.pop()
      for (const event of events) {
        const message = JSON.parse(event.slice('data: '.length))
        seen.messages++
        seen.bytes += event.length
        seen.most = Math.max(seen.most, event.length)
        seen.loads.push(...(message.load ?? []))
        seen.latest = { ...seen.latest, ...message }
      }
    })
  })
  asked.on('error', () => undefined)
  return { seen, stop: () => asked.destroy() }
}

/** Runs in the page: counts frames, and tasks of more than 50 ms. */
function watchFrames() {
  const seen = { frames: 0, worst: 0, longTasks: 0, longest: 0 }
  let last = performance.now()
  requestAnimationFrame(function count(now) {
    seen.frames++
    seen.worst = Math.max(seen.worst, now - last)
    last = now
    requestAnimationFrame(count)
  })
  new PerformanceObserver(list => {
    for (const { duration } of list.getEntries()) {
      seen.longTasks++
      seen.longest = Math.max(seen.longest, duration)
    }
  }).observe({ type: 'longtask' })
  globalThis.seen = seen
}

/** Times are processor time of the page's main thread: another program that runs takes nothing of it. */
async function readMetrics(browser) {
  const { metrics } = await browser.send('Performance.getMetrics')
  return Object.fromEntries(metrics.map(({ name, value }) => [name, value]))
}

const mean = values => values.reduce((sum, value) => sum + value, 0) / values.length
const row = (what, value) => console.log(`${what.padEnd(58)} ${value}`)

async function measure() {
  const program = fork(fileURLToPath(import.meta.url), [...process.argv.slice(2), '--engine'])
  const env = await new Promise((resolve, reject) => {
    program.once('message', resolve)
    program.once('exit', code => reject(new Error(`the engine has ended with ${code}`)))
  })
  const monitor = await startMonitor(['--ha'], env)
  const browser = await openBrowser()
  try {
    await browser.send('Performance.enable', { timeDomain: 'threadTicks' })
    await browser.resize(1440, 1120)
    await browser.open(monitor.url)
    await browser.until(`document.querySelectorAll('#feed-rows tr').length === ${feeds}`, 60_000)
    await pause(WARMUP)
    const { seen, stop } = readMessages(monitor.url)
    await browser.evaluate(`(${watchFrames})()`)
    const before = await readMetrics(browser)
    await pause(Number(seconds) * 1000)
    const after = await readMetrics(browser)
    const page = await browser.evaluate('seen')
    stop()
    report({ seen, page, before, after })
  } finally {
    await browser.close()
    await monitor.kill()
    program.disconnect()
  }
}

function report({ seen, page, before, after }) {
  const elapsed = Number(seconds)
  const share = name => `${(((after[name] - before[name]) / elapsed) * 100).toFixed(1)} %`
  const { loads, latest } = seen
  console.log(`${feeds} feeds, ${rate} reports/s, ${origins} origins, ${seconds} s`)
  console.log(
    `${availableParallelism()} cores, load ${loadavg()[0].toFixed(1)}, Node ${process.version}\n`,
  )
  row('verdict', `${latest.verdict?.[0].headline}: ${latest.verdict?.[0].facts.join(' · ')}`)
  row('reports delivered a second', latest.totals?.[0].rate)
  row(
    'age at delivery: median, 99 %',
    `${latest.latency?.[0].p50} ms, ${latest.latency?.[0].p99} ms`,
  )
  row('process: of a core', `${(mean(loads.map(load => load.cpu)) * 100).toFixed(0)} %`)
  const p99 = loads.map(load => load.loopP99Ms)
  row(
    'process: event loop late, 99 % of 2 s: mean, worst',
    `${mean(p99).toFixed(1)} ms, ${Math.max(...p99)} ms`,
  )
  row('process: memory', `${Math.round(loads.at(-1).memoryBytes / 1e6)} MB`)
  row(
    'messages a second, kB each, kB of the first',
    `${(seen.messages / elapsed).toFixed(1)}, ${(seen.bytes / seen.messages / 1000).toFixed(0)}, ${(seen.most / 1000).toFixed(0)}`,
  )
  row(
    'page: of a core; script, layout, style',
    `${share('TaskDuration')}; ${share('ScriptDuration')}, ${share('LayoutDuration')}, ${share('RecalcStyleDuration')}`,
  )
  row(
    'page: frames a second, worst frame',
    `${(page.frames / elapsed).toFixed(0)}, ${page.worst.toFixed(0)} ms`,
  )
  row('page: tasks over 50 ms, longest', `${page.longTasks}, ${page.longest.toFixed(0)} ms`)
  row('page: memory of scripts', `${Math.round(after.JSHeapUsedSize / 1e6)} MB`)
}

if (engine) await runEngine()
else await measure()
