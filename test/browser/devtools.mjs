// A page in a headless Chromium, driven over its DevTools protocol.
import { spawn } from 'node:child_process'
import { mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { WebSocket } from 'ws'
import { findChromium } from '../support/chromium.mjs'

const PATIENCE = 30_000

/** Waits until a function returns something true, and returns that. */
export async function until(condition, what, ms = PATIENCE) {
  const end = performance.now() + ms
  for (;;) {
    const value = await condition()
    if (value) return value
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

function startProcess(profile) {
  const flags = ['--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run']
  // As root Chromium does not start with its sandbox, and the page is ours.
  if (process.getuid?.() === 0) flags.push('--no-sandbox')
  const args = [...flags, '--remote-debugging-port=0', `--user-data-dir=${profile}`, 'about:blank']
  return spawn(findChromium(), args, { stdio: ['ignore', 'ignore', 'pipe'], detached: true })
}

/** Ends it with its helpers, which would write to the profile for a while. */
function stopProcess({ pid }) {
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL')
  } catch (error) {
    if (error.code !== 'ESRCH') throw error
  }
}

async function findAddress({ stderr }) {
  for await (const line of createInterface({ input: stderr })) {
    const [, address] = /^DevTools listening on (ws:\S+)/.exec(line) ?? []
    if (address !== undefined) return address
  }
  throw new Error('Chromium ended before it listened')
}

/** A connection to the browser: `send` asks, `listen` hears of what happens. */
async function connect(address) {
  const socket = new WebSocket(address)
  const waiting = new Map()
  const listeners = new Set()
  let last = 0
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  socket.on('message', data => {
    const message = JSON.parse(data)
    const { id, result, error } = message
    if (id === undefined) for (const listener of listeners) listener(message)
    else if (error) waiting.get(id).reject(new Error(error.message))
    else waiting.get(id).resolve(result)
    waiting.delete(id)
  })
  return {
    send(method, params = {}, sessionId = undefined) {
      const id = ++last
      socket.send(JSON.stringify({ id, method, params, sessionId }))
      return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }))
    },
    listen: listener => listeners.add(listener),
    close: () => socket.terminate(),
  }
}

/** What the page complains about: exceptions, errors of the console, and what its policy has blocked. */
function noteComplaints(browser, sessionId) {
  const complaints = []
  browser.listen(({ method, params, sessionId: from }) => {
    if (from !== sessionId) return
    if (method === 'Runtime.exceptionThrown')
      complaints.push(params.exceptionDetails.exception?.description)
    if (method === 'Log.entryAdded' && params.entry.level === 'error')
      complaints.push(params.entry.text)
    if (method === 'Runtime.consoleAPICalled' && params.type === 'error')
      complaints.push(params.args.map(({ value }) => value).join(' '))
  })
  return complaints
}

/** Starts a Chromium and opens an empty page in it. */
export async function openBrowser() {
  const profile = mkdtempSync(join(tmpdir(), 'sluice-browser-'))
  const chromium = startProcess(profile)
  const browser = await connect(await findAddress(chromium))
  const { targetId } = await browser.send('Target.createTarget', { url: 'about:blank' })
  const { sessionId } = await browser.send('Target.attachToTarget', { targetId, flatten: true })
  const send = (method, params) => browser.send(method, params, sessionId)
  const complaints = noteComplaints(browser, sessionId)
  for (const domain of ['Page', 'Runtime', 'Log']) await send(`${domain}.enable`)

  /** The value of an expression in the page; what it promises is waited for. */
  async function evaluate(expression) {
    const asked = { expression, awaitPromise: true, returnByValue: true }
    const { result, exceptionDetails } = await send('Runtime.evaluate', asked)
    if (exceptionDetails)
      throw new Error(exceptionDetails.exception?.description ?? exceptionDetails.text)
    return result.value
  }

  return {
    send,
    evaluate,
    complaints,
    open: url => send('Page.navigate', { url }),
    resize: (width, height, scale = 1) =>
      send('Emulation.setDeviceMetricsOverride', {
        width,
        height,
        deviceScaleFactor: scale,
        mobile: width < 600,
      }),
    /** `{ 'prefers-color-scheme': 'dark' }` */
    prefer: features =>
      send('Emulation.setEmulatedMedia', {
        features: Object.entries(features).map(([name, value]) => ({ name, value })),
      }),
    async press(key, code = key) {
      const keys = { Tab: 9, Enter: 13, ' ': 32 }
      const event = {
        key,
        code,
        windowsVirtualKeyCode: keys[key],
        ...(key === 'Enter' ? { text: '\r' } : {}),
      }
      await send('Input.dispatchKeyEvent', { type: 'keyDown', ...event })
      await send('Input.dispatchKeyEvent', { type: 'keyUp', ...event })
    },
    async screenshot() {
      const { data } = await send('Page.captureScreenshot', { format: 'png' })
      return Buffer.from(data, 'base64')
    },
    until: (expression, ms) => until(() => evaluate(expression), expression, ms),
    async close() {
      browser.close()
      stopProcess(chromium)
      await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
    },
  }
}
