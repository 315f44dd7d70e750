// Takes the pictures of the monitor that the docs show: node test/browser/monitor-pictures.mjs. Takes four minutes, until the
// lines of three minutes are full. Needs a build.
import { mkdirSync, writeFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { openBrowser } from './devtools.mjs'
import { startMonitor } from './monitor-world.mjs'
import { shrinkPNG } from './small-png.mjs'

const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url))
const FULL = Number(process.env.SECONDS ?? 190) * 1000

const monitor = await startMonitor(['--demo', '--stale', '8'])
const browser = await openBrowser()
try {
  await browser.send('Emulation.setScrollbarsHidden', { hidden: true })
  await browser.resize(1400, 1184)
  await browser.open(monitor.url)
  await pause(FULL)
  // While an origin is away.
  await browser.until(`/3 of 4 origins/.test(document.getElementById('facts').textContent)`, 90_000)
  await pause(1500)
  mkdirSync(folder, { recursive: true })
  for (const theme of ['light', 'dark']) {
    await browser.prefer({ 'prefers-color-scheme': theme })
    await pause(400)
    const picture = shrinkPNG(await browser.screenshot())
    writeFileSync(`${folder}monitor-${theme}.png`, picture)
    console.log(`docs/images/monitor-${theme}.png, ${picture.byteLength} bytes`)
  }
} finally {
  await browser.close()
  await monitor.kill()
}
