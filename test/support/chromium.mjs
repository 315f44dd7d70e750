// A Chromium to run a page in: that of the environment, one that is installed, or, for root on Debian and its like, one
// that is installed now. There is no check without one: it fails, and says what to do.
import { spawn, spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'

const names = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable', 'chrome']
const places = [
  '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
  '/Applications/Chromium.app/Contents/MacOS/Chromium',
  'C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe',
]

function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const onPath = name => (process.env.PATH ?? '').split(delimiter).map(folder => join(folder, name))

const findInstalled = () => [...names.flatMap(onPath), ...places].find(isProgram)

function install() {
  const isRoot = process.getuid?.() === 0
  if (!isRoot || !onPath('apt-get').some(isProgram)) return
  console.log('browser: installs chromium')
  const stdio = ['ignore', 'ignore', 'inherit']
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) => spawnSync('apt-get', ['-q', ...args], { stdio, env }).status === 0
  const add = () => apt('install', '-y', '--no-install-recommends', 'chromium')
  if (!add() && apt('update')) add()
}

/** There is no Chromium, and none can be installed. */
export class NoChromium extends Error {}

/** The path of a Chromium. Throws where none can be had. */
export function findChromium() {
  const { CHROMIUM } = process.env
  if (CHROMIUM !== undefined && !isProgram(CHROMIUM))
    throw new Error(`CHROMIUM is ${CHROMIUM}, which is no program`)
  const found = CHROMIUM ?? findInstalled()
  if (found !== undefined) return found
  install()
  const installed = findInstalled()
  if (installed !== undefined) return installed
  throw new NoChromium(
    `there is no Chromium: none of ${names.join(', ')} is in PATH, and none could be installed. Install one, or set CHROMIUM to its path`,
  )
}

/** Opens a page in a Chromium of its own. */
export function openChromium(url) {
  const profile = mkdtempSync(join(tmpdir(), 'sluice-browser-'))
  const flags = ['--headless=new', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run']
  // As root Chromium does not start with its sandbox, and the page is ours.
  if (process.getuid?.() === 0) flags.push('--no-sandbox')
  const chromium = spawn(findChromium(), [...flags, `--user-data-dir=${profile}`, url], {
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  })
  let said = ''
  chromium.stderr.on('data', chunk => {
    said += chunk
  })

  /** Ends it with its helpers, which would write to the profile for a while. */
  function stop({ pid }) {
    try {
      process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL')
    } catch (error) {
      if (error.code !== 'ESRCH') throw error
    }
  }

  return {
    /** What it has written to standard error. */
    get said() {
      return said
    },
    /** Resolves when it has ended by itself. */
    ended: new Promise(resolve => chromium.once('exit', resolve)),
    async close() {
      stop(chromium)
      await rm(profile, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
    },
  }
}

/** A module and what it imports, as a bundler makes them for a page. */
export async function bundleForPage(file) {
  const { build } = await import('esbuild')
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    // The package as its users find it, and not its sources.
    tsconfigRaw: '{}',
    target: 'es2022',
    logLevel: 'error',
  })
  return outputFiles[0].text
}
