// Next: a route on Node, a route at the edge, and a component in a web page, in a production build of each of its bundlers.
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run as runProcess } from '../package/steps.mjs'
import { findChromium, NoChromium, openChromium } from '../support/chromium.mjs'
import { startProgram } from './servers.mjs'

function hasChromium() {
  try {
    findChromium()
    return true
  } catch (error) {
    if (!(error instanceof NoChromium)) throw error
    console.log(`hosts: ${error.message}`)
    return false
  }
}

/** What the page has shown. */
async function readPage(url) {
  const chromium = openChromium(url)
  try {
    for (let count = 0; count < 200; count++) {
      await sleep(100)
      const answer = await (await fetch(new URL('/done', url))).json()
      if (answer.price ?? answer.error) return answer
    }
    throw new Error(`the page shows nothing: ${chromium.said.slice(-1000)}`)
  } finally {
    await chromium.close()
  }
}

const routes = [
  ['node', 'route on Node'],
  ['edge', 'route at the edge'],
]

/** What Next says of its own edge, which is deprecated. */
const ofTheEdge = /^.*edge runtime.*$/gim

async function add({ folder, service }, step, bundler, isExternal) {
  const name = isExternal ? `${bundler}, sluice as an external package` : bundler
  const cwd = join(folder, 'programs', 'next')
  const next = join(folder, 'node_modules/next/dist/bin/next')
  const { CI: _, ...usual } = process.env
  // In CI, Next warns of a cache that is not kept.
  const env = { ...usual, NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' }
  if (isExternal) env.EXTERNAL = '1'
  rmSync(join(cwd, '.next'), { recursive: true, force: true })
  let isBuilt = false
  await step(`${name}: build without warnings`, async () => {
    const args = [next, 'build', `--${bundler}`]
    const { stdout, stderr } = await runProcess(process.execPath, args, {
      cwd,
      env,
      timeout: 240_000,
    })
    isBuilt = true
    const said = (stdout + stderr).replace(ofTheEdge, '')
    const warning = said.search(/⚠|warn/i)
    assert.equal(warning, -1, said.slice(warning))
  })
  if (!isBuilt) return
  const server = await startProgram([next, 'start', '-p', '0', '-H', '127.0.0.1'], {
    cwd,
    env: { ...env, ...service.env },
  })
  try {
    for (const [route, what] of routes)
      await step(`${name}: ${what}`, async () => {
        const signal = AbortSignal.timeout(20_000)
        const ask = async () => (await fetch(`${server.url}/${route}`, { signal })).json()
        await service.checkNewest(ask)
        for (let count = 0; count < 4; count++)
          await Promise.all(Array.from({ length: 10 }, () => service.checkNewest(ask)))
      })
    await step(`${name}: route of this page`, () =>
      service.checkNewest(async () => (await fetch(`${server.url}/docs`)).json()),
    )
    await step(`${name}: stream in a route`, async () => {
      const answer = await (await fetch(`${server.url}/stream`)).json()
      service.checkStream(answer, 3)
      const threads = `verified in ${answer.threads} threads`
      if (isExternal) assert.ok(answer.threads > 0, threads)
      return threads
    })
    if (hasChromium())
      await step(`${name}: component in a web page`, async () => {
        await service.checkNewest(() => readPage(server.url))
      })
    await step(`${name}: the server prints nothing`, async () => assert.equal(server.said(), ''))
  } finally {
    server.child.kill('SIGKILL')
  }
}

export const hosts = {
  async next(world, step) {
    await add(world, step, 'turbopack', false)
    await add(world, step, 'turbopack', true)
    await add(world, step, 'webpack', false)
  },
}
