// The built site: no link of any page is dead, and axe-core finds nothing wrong on a page, in light and dark, on a desktop and a
// phone. npm run site:check [-- PAGE...] [--pictures FOLDER]      names of pages are like guides/streams.html
// With --pictures it writes pictures of five pages into the folder.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { extname, join, posix } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { NoChromium } from '../support/chromium.mjs'
import { openBrowser } from './devtools.mjs'

/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
const folder = fileURLToPath(new URL('../../site/.out/', import.meta.url))
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { pictures: { type: 'string' } },
})

/** Where the site stands at its host. */
const base = process.env.SITE_BASE ?? '/'

const pages = readdirSync(folder, { recursive: true, encoding: 'utf8' })
  .map(path => path.replaceAll('\\', '/'))
  .filter(path => path.endsWith('.html'))
  .sort()

/** The dead links of the pages: to no file of the site, or to no heading. */
function findDeadLinks() {
  const texts = new Map(pages.map(page => [page, readFileSync(join(folder, page), 'utf8')]))
  const idsOf = page =>
    new Set([...texts.get(page).matchAll(/\bid="([^"]+)"/g)].map(([, id]) => id))
  const ids = new Map(pages.map(page => [page, idsOf(page)]))
  let links = 0
  const dead = [...texts].flatMap(([page, text]) =>
    [...text.matchAll(/<(?:a|link|img|source)\b[^>]*?\b(?:href|src|srcset)="([^"]+)"/g)].flatMap(
      ([, target]) => {
        if (/^([a-z]+:|\/\/)/.test(target)) return []
        links++
        const [file, anchor] = target.replaceAll('&amp;', '&').split('#')
        const path =
          file === ''
            ? page
            : file.startsWith(base)
              ? `/${file.slice(base.length)}`
              : posix.join('.', `/${posix.dirname(page)}/${file}`)
        const found = decodeURIComponent(path.replace(/^\//, '').replace(/(^|\/)$/, '$1index.html'))
        if (!existsSync(join(folder, found))) return [`${page}: ${target} leads to no file`]
        const isThere = anchor === undefined || ids.get(found)?.has(decodeURIComponent(anchor))
        return isThere ? [] : [`${page}: ${target} leads to no heading`]
      },
    ),
  )
  assert.ok(links > 1000, `only ${links} links`)
  return { links, dead: [...new Set(dead)] }
}

const types = {
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.css': 'text/css',
  '.svg': 'image/svg+xml',
}
const server = createServer((request, response) => {
  const { pathname } = new URL(request.url, 'http://site')
  const name = pathname.slice(base.length)
  const path = join(folder, name === '' || name.endsWith('/') ? `${name}index.html` : name)
  const isThere = existsSync(path) && statSync(path).isFile()
  const type = isThere ? (types[extname(path)] ?? 'application/octet-stream') : 'text/html'
  response.writeHead(isThere ? 200 : 404, { 'content-type': type })
  response.end(readFileSync(isThere ? path : join(folder, '404.html')))
})
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
const address = `http://127.0.0.1:${server.address().port}${base}`

async function show(browser, page, scheme) {
  await browser.prefer({ 'prefers-color-scheme': scheme })
  await browser.open('about:blank')
  await browser.open(`${address}${page}`)
  await browser.until(
    `document.readyState === 'complete' && document.querySelector('#app *') !== null`,
  )
}

/** What axe-core finds wrong on a page, in a line each. */
async function audit(browser, page) {
  await browser.evaluate(axe)
  const found = await browser.evaluate(
    `axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      .then(({ violations }) => violations.flatMap(({ id, nodes }) =>
        nodes.slice(0, 3).map(({ html, any }) => id + ': ' + html.slice(0, 160) + ' ' + (any[0]?.message ?? ''))))`,
  )
  return found.map(line => `${page}: ${line}`)
}

/** A page of the site at its old address, where the server has none. */
async function checkNotFound(browser) {
  await show(browser, 'docs/streams.html', 'light')
  const read = `[...document.querySelectorAll('.not-found ul:first-of-type a')].map(link => link.pathname)`
  const named = await browser.until(`(${read}).length > 0 && (${read})`)
  assert.ok(named.includes(`${base}guides/streams.html`), `the 404 names ${named}`)
}

/** Without JavaScript a page shows its text, and the way to all others. */
async function checkWithoutScripts(browser) {
  await browser.send('Emulation.setScriptExecutionDisabled', { value: true })
  await browser.resize(1280, 900)
  await show(browser, 'guides/streams.html', 'light')
  const seen = await browser.evaluate(`({
    text: document.querySelector('main').innerText.length,
    links: [...document.querySelectorAll('.VPSidebar a')].filter(link => link.offsetHeight > 0).length,
  })`)
  await browser.send('Emulation.setScriptExecutionDisabled', { value: false })
  assert.ok(seen.text > 5000 && seen.links > 60, `without JavaScript: ${JSON.stringify(seen)}`)
}

let browser
try {
  const { links, dead } = findDeadLinks()
  assert.deepEqual(dead, [])
  console.log(`site: ${pages.length} pages, ${links} links, none dead`)
  browser = await openBrowser()
  if (values.pictures !== undefined)
    for (const page of [
      'index',
      'start/lasting-stream',
      'recipes/market-guard',
      'concepts/continuity',
      'reference/streams',
    ])
      for (const [width, height] of [
        [1280, 900],
        [390, 844],
      ])
        for (const scheme of ['light', 'dark']) {
          await browser.resize(width, height)
          await show(browser, `${page}.html`, scheme)
          const { data } = await browser.send('Page.captureScreenshot', { format: 'png' })
          const name = `${page.replace('/', '-')}-${width}-${scheme}.png`
          writeFileSync(join(values.pictures, name), Buffer.from(data, 'base64'))
        }
  await checkNotFound(browser)
  await checkWithoutScripts(browser)
  const wrong = []
  const audited = positionals.length > 0 ? positionals : pages
  const unknown = audited.filter(page => !pages.includes(page))
  assert.deepEqual(unknown, [], 'the site has no such pages')
  for (const [index, page] of audited.entries()) {
    // Each page in one of four ways, and the first ones in all.
    const ways = ['light', 'dark'].flatMap(scheme => [1280, 390].map(width => [scheme, width]))
    const chosen = index < 4 ? ways : [ways[index % 4]]
    for (const [scheme, width] of chosen) {
      await browser.resize(width, 900)
      await show(browser, page, scheme)
      const found = await audit(browser, `${page} (${scheme}, ${width})`)
      const overflow = await browser.evaluate(
        'document.documentElement.scrollWidth - document.documentElement.clientWidth',
      )
      if (overflow > 0) found.push(`${page}: is ${overflow} pixels wider than a screen of ${width}`)
      wrong.push(...found)
    }
  }
  for (const line of wrong) console.log(line)
  assert.equal(wrong.length, 0, `axe-core and the widths: ${wrong.length} violations`)
  console.log(`site: axe-core finds nothing on ${audited.length} pages`)
} catch (error) {
  console.log(`site: FAILED\n${error.stack}`)
  process.exitCode = error instanceof NoChromium ? UNAVAILABLE : 1
} finally {
  await browser?.close()
  server.close()
}
