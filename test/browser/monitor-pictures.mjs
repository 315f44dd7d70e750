// Takes pictures of the monitor: node test/browser/monitor-pictures.mjs [FOLDER]. Needs a build. Without a folder it takes those
// that the docs show, which takes four minutes, until the lines of three minutes are full; with one, it puts pictures of six states
// there to be looked at: all well, one origin lost, gaps, a feed, all lost, and on a phone.
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { startDataEngine } from '@sluice/engine'
import { knownFeeds } from 'sluice'
import { openBrowser } from './devtools.mjs'
import { envOf, startMonitor } from './monitor-world.mjs'
import { shrinkPNG } from './small-png.mjs'

const [given] = process.argv.slice(2)
const folder = given ?? fileURLToPath(new URL('../../docs/images/', import.meta.url))
const FULL = Number(process.env.SECONDS ?? 190) * 1000

let browser

/** Takes a picture in a theme. */
async function take(name, theme) {
  await browser.prefer({ 'prefers-color-scheme': theme })
  await pause(500)
  const picture = shrinkPNG(await browser.screenshot())
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, `${name}.png`), picture)
  console.log(`${join(folder, `${name}.png`)}, ${picture.byteLength} bytes`)
}

/** The pictures of the docs: an origin of the demo is away. */
async function takeForDocs() {
  const monitor = await startMonitor(['--demo', '--stale', '8'])
  try {
    await browser.resize(1400, 1184)
    await browser.open(monitor.url)
    await pause(FULL)
    await browser.until(
      `/3 of 4 origins/.test(document.getElementById('facts').textContent)`,
      90_000,
    )
    await pause(1500)
    for (const theme of ['light', 'dark']) await take(`monitor-${theme}`, theme)
  } finally {
    await monitor.kill()
  }
}

/** A feed in milliseconds, of which it shows that a report is missing. */
const fine = `0x1003${'5'.repeat(60)}`
const e18 = 10n ** 18n

/** Pictures of six states of a stream over two origins. */
async function takeStates() {
  const feeds = Object.values(knownFeeds.mainnet).map(({ feedID }) => ({ feedID }))
  const engine = await startDataEngine({
    feeds: [...feeds, { feedID: fine, intervalMs: 0 }],
    origins: 2,
    history: 1,
  })
  const timer = setInterval(() => engine.publish(fine, { price: walk() }), 250)
  const monitor = await startMonitor(['--ha', '--stale', '5'], envOf(engine))
  const [first, second] = engine.origins
  const level = wanted =>
    browser.until(`document.getElementById('verdict').dataset.level === '${wanted}'`, 60_000)
  try {
    await browser.resize(1400, 1184)
    await browser.open(monitor.url)
    await level('ok')
    await pause(Math.min(FULL, 40_000))
    for (let round = 0; round < 2000; round++) engine.publish(fine, { price: walk() })
    await pause(6000)
    await take('well-light', 'light')
    await first.kill()
    await level('degraded')
    await pause(4000)
    await take('lost-dark', 'dark')
    await browser.resize(390, 844, 2)
    await browser.evaluate(`document.getElementById('origins').scrollIntoView()`)
    await take('phone-origins-dark', 'dark')
    await browser.evaluate(`scrollTo(0, 0)`)
    await take('phone-light', 'light')
    await first.restart()
    await browser.resize(1400, 1184)
    for (let lost = 0; lost < 2; lost++) {
      engine.publish(fine, {}, { streamed: false, stored: false })
      await pause(3000)
    }
    second.forge('value', 1)
    await pause(600)
    second.forge(undefined)
    await browser.until(`/gap/.test(document.getElementById('needs').textContent)`, 60_000)
    await pause(2000)
    await take('gaps-light', 'light')
    await browser.evaluate(`location.hash = '#/feed/${fine}'`)
    await pause(2500)
    await take('feed-dark', 'dark')
    await browser.resize(390, 844, 2)
    await take('phone-feed-light', 'light')
    await browser.resize(1400, 1184)
    await browser.evaluate(`location.hash = '#/'`)
    await first.kill()
    await second.kill()
    await level('down')
    await pause(7000)
    await take('all-lost-dark', 'dark')
  } finally {
    clearInterval(timer)
    await monitor.kill()
    await engine.close()
  }
}

let price = 1234n * e18
/** A price that goes up and down. */
function walk() {
  price += (BigInt(Math.round((Math.random() - 0.5) * 2e6)) * e18) / 1_000_000n
  return price
}

try {
  browser = await openBrowser()
  await browser.send('Emulation.setScrollbarsHidden', { hidden: true })
  if (given === undefined) await takeForDocs()
  else await takeStates()
} finally {
  await browser?.close()
}
