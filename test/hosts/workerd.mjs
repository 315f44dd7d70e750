// workerd, the runtime of Cloudflare's workers, with a client that lives as long as the module, from the first request on,
// or for one request.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const REQUESTS = 1000
const AT_ONCE = 50
const LIMITED = 30
const DATE = '2026-04-01'

/** Where the worker keeps its client, by the names that its program knows. */
const clients = {
  module: 'module scope',
  first: 'first request',
  request: 'each request',
}

/** A worker as wrangler bundles it. */
async function bundle({ folder, load }, { file = 'worker.js', keeps = '', isLimited = false }) {
  const { build } = await load('esbuild')
  const { outputFiles, warnings } = await build({
    entryPoints: [join(folder, 'programs', file)],
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    conditions: ['workerd', 'worker', 'browser'],
    target: 'es2024',
    external: ['cloudflare:*', 'node:*'],
    define: { KEEPS: JSON.stringify(keeps), IS_LIMITED: String(isLimited) },
    logLevel: 'silent',
  })
  assert.deepEqual(warnings, [])
  return outputFiles[0].text
}

/** workerd says so, with a stack, when it answers a caller who has closed the connection. */
const CALLER_LEFT = /^.*\bdisconnected: ::writev?\(.*\n(stack: .*\n)?/gm

/** Starts a worker and runs `use` with its URL. What it logs is a failure. */
async function withWorker(world, settings, use) {
  const { Log, LogLevel, Miniflare } = await world.load('miniflare')
  let log = ''
  class Lines extends Log {
    log(line) {
      log += `${line}\n`
    }
  }
  const worker = new Miniflare({
    modules: [{ type: 'ESModule', path: 'worker.js', contents: await bundle(world, settings) }],
    compatibilityDate: DATE,
    compatibilityFlags: settings.flags,
    bindings: world.service.env,
    cf: false,
    log: new Lines(LogLevel.WARN),
    handleRuntimeStdio(stdout, stderr) {
      for (const stream of [stdout, stderr]) stream.on('data', chunk => (log += chunk))
    },
  })
  try {
    await use((await worker.ready).href)
  } catch (error) {
    throw new Error(`${error.message}${log && `\nthe log says: ${log.slice(0, 2000)}`}`)
  } finally {
    await worker.dispose().catch(() => undefined)
  }
  assert.equal(log.replace(CALLER_LEFT, ''), '', 'the log is not empty')
}

/** Asks, and gives up after so many milliseconds. The timer holds the signal: Node loses a fetch whose signal nobody holds. */
async function ask(url, ms = 15_000) {
  const controller = new AbortController()
  const timer = setTimeout(() => controller.abort(new Error(`no answer in ${ms} ms`)), ms)
  try {
    const text = await (await fetch(url, { signal: controller.signal })).text()
    if (!text.startsWith('{')) throw new Error(text)
    return JSON.parse(text)
  } finally {
    clearTimeout(timer)
  }
}

/** Gives up after so many milliseconds, if there is no answer. */
const giveUp = (url, ms) => ask(url, ms).catch(() => undefined)

/**
 * Sends all requests, so many at a time, and tells how many failed, and how the first one did. Every fifth is given up
 * where `givesUp`.
 */
async function askAll({ service }, url, { requests = REQUESTS, givesUp = false } = {}) {
  const errors = []
  let left = requests
  async function askOn() {
    while (left-- > 0 && errors.length < 2 * AT_ONCE)
      if (givesUp && left % 5 === 0) await giveUp(url, left % 60)
      else await service.checkNewest(() => ask(url)).catch(error => errors.push(error))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, askOn))
  assert.equal(errors.length, 0, `${errors.length} failed, the first so: ${errors[0]?.message}`)
}

/** While the service is slow, the first request is given up by the one who sent it; others, sent meanwhile, are not. */
async function giveUpFirst({ service }, url) {
  service.engine.blackhole(true)
  const first = giveUp(url, 500)
  await sleep(200)
  const others = [1, 2, 3].map(() => service.checkNewest(() => ask(url)))
  assert.equal(await first, undefined)
  service.engine.blackhole(false)
  await Promise.all(others)
  for (let count = 0; count < 3; count++) await service.checkNewest(() => ask(url))
}

export const hosts = {
  async workerd(world, step) {
    await step('worker of this page', () =>
      withWorker(world, { file: 'docs/worker.js', flags: [] }, async url => {
        for (let count = 0; count < 3; count++) await world.service.checkNewest(() => ask(url))
        world.service.checkStream(await ask(new URL('/stream', url)), 5)
      }),
    )
    const compatible = world.isShare ? [] : [['nodejs_compat']]
    for (const flags of [[], ...compatible])
      for (const [keeps, client] of Object.entries(clients)) {
        const name = [client, ...flags].join(', ')
        const inWorker = (use, isLimited) => () =>
          withWorker(world, { keeps, flags, isLimited }, use)
        await step(
          `${name}: ${REQUESTS} requests`,
          inWorker(url => askAll(world, url)),
        )
        await step(
          `${name}: the caller aborts the first request`,
          inWorker(url => giveUpFirst(world, url)),
        )
        await step(
          `${name}: the caller aborts every fifth request`,
          inWorker(url => askAll(world, url, { requests: 300, givesUp: true })),
        )
        // Those that wait for the limit are let go by a timer, which some request must hold.
        await step(
          `${name}: ${LIMITED} requests, limited to 10 a second`,
          inWorker(url => askAll(world, url, { requests: LIMITED }), true),
        )
        await step(
          `${name}: streams`,
          inWorker(async url => {
            for (let count = 0; count < 2; count++)
              world.service.checkStream(await ask(new URL('/stream', url)), 5)
            await world.service.checkNewest(() => ask(url))
          }),
        )
      }
  },
}
