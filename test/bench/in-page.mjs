// Runs a script of this folder in a page of Chromium, and returns what it posts.
import { createServer } from 'node:http'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { bundleForPage, openChromium } from '../support/chromium.mjs'

const PATIENCE = 120_000

/** The script reads `facts` at /facts, and posts its result as JSON. Throws NoChromium where there is none. */
export async function runInPage(file, facts) {
  const script = await bundleForPage(fileURLToPath(new URL(file, import.meta.url)))
  const page =
    '<!doctype html><meta charset="utf-8"><script type="module" src="/script.js"></script>'
  let finish
  const posted = new Promise(resolve => {
    finish = resolve
  })
  const server = createServer(async (request, response) => {
    if (request.method === 'POST') {
      finish(JSON.parse(await text(request)))
      response.end()
    } else if (request.url === '/facts') response.end(JSON.stringify(facts))
    else if (request.url === '/script.js')
      response.setHeader('Content-Type', 'text/javascript').end(script)
    else response.setHeader('Content-Type', 'text/html').end(page)
  })
  await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
  const timer = setTimeout(() => finish(), PATIENCE)
  let chromium
  try {
    chromium = openChromium(`http://127.0.0.1:${server.address().port}/`)
    void chromium.ended.then(() => finish())
    const result = await posted
    if (result === undefined) throw new Error(`${file} has not answered: ${chromium.said}`)
    return result
  } finally {
    clearTimeout(timer)
    await chromium?.close()
    server.closeAllConnections()
    server.close()
  }
}
