// The soak: many feeds over three origins, verified, in sorted order, taken by a loop, and a random fault every so often:
// npm run faults -- soak --help
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, writeFileSync } from 'node:fs'
import { cpus, platform } from 'node:os'
import { fileURLToPath } from 'node:url'
import { startDataEngine, startFaultProxy } from '@sluice/engine'
import { readArguments } from '../support/arguments.mjs'
import { seededRandom } from './harness/random.mjs'
import { pause, until } from './harness/waiting.mjs'
import { createFaults } from './soak/faults.mjs'
import { formatSlope, hasSlope, slopeOf, warmUpOf } from './soak/slope.mjs'
import { openTally } from './soak/tally.mjs'

const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE
const MB = 1e6

/** How often heap and handles are looked at. */
const SAMPLE_EVERY = 10 * SECOND
/** How long a fault lasts. */
const FAULT_LASTS = [SECOND, 20 * SECOND]
/** How long what is missing may take to come once all faults have ended. */
const DRAIN = 3 * MINUTE
/** What may be left of kept-alive requests, and of timers. */
const MORE_HANDLES = 8
/** How many reports are published in one turn. */
const MOST_AT_ONCE = 10
/** How long a report may wait in sorted order, in ms: one that is found later comes late. */
const MAX_HOLD = 30 * SECOND
/** How many reports of each feed the service keeps: more than are fetched again. */
const RETAIN = 500

/** The client in its process, and its outcome. */
function startClient(tally) {
  const child = fork(fileURLToPath(new URL('./soak/client.mjs', import.meta.url)), {
    execArgv: ['--expose-gc'],
    serialization: 'advanced',
  })
  const waiting = new Map()
  const outcome = { filled: 0, errors: {}, unhandled: [], ended: undefined }
  let asked = 0
  let ready
  const isReady = new Promise(resolve => {
    ready = resolve
  })
  child.on('message', message => {
    if (message.reports !== undefined) message.reports.forEach(tally.deliver)
    else if (message.gap !== undefined) tally.gaps.push(message.gap)
    else if (message.filled !== undefined) outcome.filled++
    else if (message.error !== undefined)
      outcome.errors[message.error] = (outcome.errors[message.error] ?? 0) + 1
    else if (message.unhandled !== undefined) outcome.unhandled.push(message.unhandled)
    else if (message.ended !== undefined) outcome.ended = message.ended
    else if (message.ready) ready()
    else if (message.failure !== undefined)
      waiting.get(message.id)?.reject(new Error(message.failure))
    else waiting.get(message.id)?.resolve(message.value)
  })
  child.once('exit', (code, signal) => {
    for (const { reject } of waiting.values())
      reject(new Error(`the client has ended: ${signal ?? code}`))
  })
  return {
    outcome,
    isReady,
    ask(what, given) {
      const id = ++asked
      return new Promise((resolve, reject) => {
        waiting.set(id, { resolve, reject })
        child.send({ id, what, given })
      }).finally(() => waiting.delete(id))
    },
    async kill() {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

/** Counts the requests an engine has had, but for upgrades, although it forgets them after a while. */
function countRequests(engine) {
  let since = Date.now()
  let count = 0
  return function update() {
    // What has come in the current millisecond may not be all of it.
    const until = Date.now()
    for (const { path, at } of engine.requests())
      if (at >= since && at < until && !path.includes('/ws')) count++
    since = until
    return count
  }
}

/** Every other feed has times in milliseconds. */
const feedIDs = count =>
  Array.from(
    { length: count },
    (_, i) => `0x${i % 2 === 0 ? '0' : '1'}003${(i + 1).toString(16).padStart(60, '0')}`,
  )

/**
 * Publishes a report of each feed in turn, so many a second, and no more at once than leave the engine's time to answer:
 * on a machine that is too slow there are fewer. Returns how to stop.
 */
function publish(engine, perSecond) {
  let due = 0
  let since = performance.now()
  let next = 0
  const timer = setInterval(() => {
    const now = performance.now()
    due = Math.min(due + ((now - since) * perSecond) / SECOND, MOST_AT_ONCE)
    since = now
    for (; due >= 1; due--) engine.publish(engine.feeds[next++ % engine.feeds.length])
  }, 10)
  return () => clearInterval(timer)
}

const sum = counts => Object.values(counts).reduce((total, count) => total + count, 0)

/** Runs a soak, and returns its figures. Rejects only when the soak itself is broken. */
export async function runSoak({
  minutes = 10,
  every = 20,
  feeds = 250,
  seed = 1,
  slope: mostSlope = 1,
  say = () => {},
  sampled = () => {},
}) {
  const ids = feedIDs(feeds)
  const engine = await startDataEngine({
    feeds: ids,
    origins: 3,
    intervalMs: 0,
    history: 0,
    retain: RETAIN,
    compression: false,
    seed,
  })
  const proxies = await Promise.all(
    engine.origins.map(({ wsEndpoint }) => startFaultProxy({ upstream: wsEndpoint, seed })),
  )
  const rest = await startFaultProxy({ upstream: engine.endpoint, seed })
  const tally = openTally(engine, MAX_HOLD)
  const client = startClient(tally)
  const requests = countRequests(engine)
  const random = seededRandom(seed, 'soak')
  const beginFault = createFaults({ engine, proxies, rest, random })
  const samples = []
  const faults = []
  const running = new Set()
  let timers = []
  let nextFault
  let stopPublishing = () => {}
  const start = performance.now()
  const elapsed = () => performance.now() - start
  const attempts = () => proxies.reduce((total, proxy) => total + proxy.accepted, 0)

  function repeat(ms, act) {
    timers.push(setInterval(act, ms))
  }

  async function sample() {
    const { heapUsed, code, rss, external, counts, handles } = await client.ask('sample')
    const taken = {
      ...{ at: Math.round(elapsed()), heap: heapUsed / MB, code: code / MB },
      ...{ rss: rss / MB, external: external / MB, counts, handles },
      // After an outage its reports are fetched, and later ones wait in memory.
      isQuiet: running.size === 0 && tally.lost() < feeds,
    }
    samples.push(taken)
    sampled(taken)
    return taken
  }

  /** Begins a fault, and ends it after a while. */
  async function strike() {
    const ms = FAULT_LASTS[0] + random() * (FAULT_LASTS[1] - FAULT_LASTS[0])
    const fault = { at: elapsed(), lasts: Math.round(ms), name: '' }
    faults.push(fault)
    const { name, end } = await beginFault()
    fault.name = name
    const entry = { end, timer: undefined }
    running.add(entry)
    entry.timer = setTimeout(() => endFault(entry), ms)
  }

  async function endFault(entry) {
    if (!running.delete(entry)) return
    clearTimeout(entry.timer)
    await entry.end()
  }

  function sayMinute() {
    const { heap, rss, handles } = samples.at(-1) ?? { heap: 0, rss: 0, handles: {} }
    const minute = Math.round(elapsed() / MINUTE)
    const struck = faults.filter(({ at }) => at > elapsed() - MINUTE).map(({ name }) => name)
    say(
      `minute ${minute}: heap ${heap.toFixed(1)} MB, rss ${rss.toFixed(0)} MB, handles ${JSON.stringify(handles)}, ` +
        `published ${tally.counts.published}, missing now ${tally.lost()}, attempts ${attempts()}, requests ${requests()}; ${struck.join(', ')}`,
    )
  }

  try {
    await client.isReady
    const { apiKey, userSecret } = engine
    await client.ask('connect', {
      config: {
        ...{ apiKey, userSecret, haMode: true, endpoint: rest.url },
        verify: { signers: engine.network },
        continuity: { order: 'sorted', reorderTimeout: MAX_HOLD },
        wsEndpoint: proxies.map(({ wsURL }) => wsURL).join(','),
      },
      options: { maxReconnectAttempts: Number.POSITIVE_INFINITY },
      feeds: ids,
    })
    const connectionsOfAll = await client
      .ask('metrics')
      .then(metrics => metrics.configuredConnections)
    await until(() => engine.connections >= connectionsOfAll, 10 * SECOND)
    const resumed = elapsed()
    stopPublishing = publish(engine, feeds)
    await pause(3 * SECOND)
    const first = await sample()
    const before = { attempts: attempts(), requests: requests() }
    repeat(SAMPLE_EVERY, sample)
    repeat(SECOND, tally.update)
    repeat(SECOND, requests)
    repeat(MINUTE, sayMinute)
    nextFault = setInterval(strike, every * SECOND)
    timers.push(nextFault)
    await pause(minutes * MINUTE - 3 * SECOND)

    clearInterval(nextFault)
    for (const entry of [...running]) await endFault(entry)
    const soaked = (elapsed() - resumed) / HOUR
    const made = attempts() - before.attempts
    const asked = requests() - before.requests
    const published = tally.counts.published
    // What is missing at the very end shows when the next report comes.
    await until(() => engine.connections >= connectionsOfAll, DRAIN)
    await pause(2 * SECOND)
    stopPublishing()
    await until(() => tally.lost() === 0, DRAIN)
    // Copies may still come.
    await pause(10 * SECOND)
    for (const timer of timers) clearInterval(timer)
    timers = []
    const last = await sample()
    const metrics = await client.ask('metrics')
    const lost = tally.lost()
    const closed = await client.ask('close')
    const measured = samples.filter(({ at }) => at >= warmUpOf(minutes) * MINUTE)
    const slopesOf = list =>
      Object.fromEntries(
        ['heap', 'code'].map(name => [
          name,
          slopeOf(list.map(each => ({ x: each.at / HOUR, y: each[name] }))),
        ]),
      )
    return {
      ...{ seed, minutes, every, feeds, faults },
      ...tally.counts,
      publishedPerSecond: published / (soaked * 3600),
      lost,
      announced: tally.announced(),
      gaps: tally.gaps.length,
      foreign: tally.foreign(),
      slopes: slopesOf(measured),
      quietSlopes: slopesOf(measured.filter(({ isQuiet }) => isQuiet)),
      mostSlope,
      heap: [first.heap, last.heap],
      rss: [first.rss, last.rss],
      handles: [first.handles, last.handles],
      attempts: made,
      attemptsPerHour: made / soaked,
      requests: asked,
      requestsPerHour: asked / soaked,
      closeMs: closed.ms,
      handlesAfterClose: closed.handles,
      ...client.outcome,
      metrics: { ...metrics, origins: undefined },
      samples,
    }
  } finally {
    stopPublishing()
    for (const timer of timers) clearInterval(timer)
    for (const entry of [...running]) await endFault(entry)
    await client.kill()
    for (const proxy of [...proxies, rest]) await proxy.close()
    await engine.close()
  }
}

/** What a soak should not have done, in words. */
export function findFailures(figures) {
  const { lost, announced, doubled, foreign, altered, disordered, minutes, handles, closeMs } =
    figures
  const { slopes, quietSlopes, mostSlope } = figures
  const grown = [slopes.heap, quietSlopes.heap].find(
    each => each.slope - 2 * each.error > mostSlope,
  )
  const [before, after] = handles.map(sum)
  // The parent's channel, and the pipes of the output.
  const left = Object.keys(figures.handlesAfterClose).filter(kind => kind !== 'PipeWrap')
  return [
    [lost > 0, `${lost} reports lost`],
    [announced > 0, `${announced} reports announced as missing that the service has`],
    [doubled > 0, `${doubled} reports delivered twice`],
    [foreign > 0, `${foreign} reports delivered that nobody published`],
    [altered > 0, `${altered} reports delivered that were altered on the way`],
    [disordered > 0, `${disordered} reports out of order within the time that a report may wait`],
    [
      hasSlope(minutes) && grown !== undefined,
      `the heap grows by ${formatSlope(minutes, grown ?? slopes.heap)}, the bound is ${mostSlope}`,
    ],
    [after - before > MORE_HANDLES, `${after} handles at the end, ${before} at the start`],
    [left.length > 0, `left after closing: ${left.join(', ')}`],
    [closeMs > SECOND, `closing takes ${Math.round(closeMs)} ms`],
    [figures.unhandled.length > 0, `unhandled: ${figures.unhandled[0]}`],
    [figures.ended !== undefined, `the stream has ended: ${figures.ended}`],
  ].flatMap(([isFailure, words]) => (isFailure ? [words] : []))
}

const number = (value, digits = 0) => value.toFixed(digits)

function tableOf(figures) {
  const { minutes, slopes, quietSlopes } = figures
  const rows = [
    ['published', `${figures.published}, ${number(figures.publishedPerSecond)} a second`],
    ['lost', figures.lost],
    [
      'announced as missing',
      `${figures.announced}; ${figures.gaps} gaps, ${figures.filled} reports that filled them`,
    ],
    ['doubled', figures.doubled],
    ['delivered, never published', figures.foreign],
    ['altered on the way', figures.altered],
    ['out of order, within the longest wait', figures.disordered],
    ['out of order, later', figures.late],
    ['fetched', figures.backfilled],
    ['verified', figures.metrics.verified],
    ['faults', figures.faults.length],
    ['attempts', `${figures.attempts}, ${number(figures.attemptsPerHour)} an hour`],
    ['REST requests', `${figures.requests}, ${number(figures.requestsPerHour)} an hour`],
    ['heap slope', formatSlope(minutes, slopes.heap)],
    ['without a fault', formatSlope(minutes, quietSlopes.heap)],
    ['of that, compiled code', formatSlope(minutes, quietSlopes.code)],
    ['heap, first and last', `${figures.heap.map(each => number(each, 1)).join(', ')} MB`],
    ['RSS, first and last', `${figures.rss.map(each => number(each)).join(', ')} MB`],
    ['handles, first and last', figures.handles.map(each => JSON.stringify(each)).join(', ')],
    ['handles after close', JSON.stringify(figures.handlesAfterClose)],
    ['close', `${number(figures.closeMs)} ms`],
    ['errors', JSON.stringify(figures.errors)],
    ['unhandled', figures.unhandled.length],
  ]
  return [
    '| soak | |',
    '| --- | --- |',
    ...rows.map(([name, value]) => `| ${name} | ${value} |`),
  ].join('\n')
}

const options = {
  minutes: ['N', 'how long (10)'],
  every: ['N', 'how many seconds from one fault to the next (20)'],
  feeds: ['N', 'how many, one report a second each (250)'],
  seed: ['N', 'what everything random depends on (1)'],
  slope: ['N', 'the most MB an hour by which the heap may grow (1)'],
  json: ['FILE', 'writes all figures there'],
  samples: ['FILE', 'writes each sample of the memory there when it is taken'],
}

/** The command: runs a soak, prints its figures, and says what failed by the exit code. */
export async function soak(args) {
  const { values } = readArguments(args, {
    name: 'soak',
    usage: 'npm run faults -- soak [options]',
    files: ['json', 'samples'],
    options,
    check({ values: { json, samples, help, ...numbers }, positionals }) {
      if (positionals.length > 0) return `there is no ${positionals[0]}`
      const wrong = Object.keys(numbers).find(name => !(Number(numbers[name]) > 0))
      if (wrong !== undefined) return `--${wrong} must be a number above 0`
      const broken = ['feeds', 'seed'].find(name => !Number.isInteger(Number(numbers[name] ?? 1)))
      return broken && `--${broken} must be a whole number`
    },
  })
  const { json, samples, ...texts } = values
  const given = Object.fromEntries(
    Object.entries(texts).map(([name, text]) => [name, Number(text)]),
  )
  const cores = cpus()
  if (samples !== undefined) writeFileSync(samples, '')
  const figures = await runSoak({
    ...given,
    say: line => console.error(line),
    sampled: sample =>
      samples !== undefined && appendFileSync(samples, `${JSON.stringify(sample)}\n`),
  })
  const { seed, minutes, feeds, every } = figures
  console.log(
    `Seed ${seed}, ${feeds} feeds, ${minutes} minutes, a fault every ${every} s, ` +
      `${cores.length} × ${cores[0]?.model.trim() ?? 'unknown processor'}, ${platform()}, Node ${process.version}.\n`,
  )
  console.log(tableOf(figures))
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(figures, null, 2)}\n`)
  const failures = findFailures(figures)
  for (const failure of failures)
    console.error(
      `soak: ${failure}; again: npm run faults -- soak --minutes ${minutes} --every ${every} --seed ${seed}`,
    )
  // Node 20 may wait for ever, and busily, for a write to the ended client when it takes itself apart.
  process.exit(failures.length === 0 ? 0 : 1)
}
