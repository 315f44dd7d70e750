// Finds a nats-server: the one that NATS_SERVER names, the one on the path, or one that Go builds.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import { join } from 'node:path'

const VERSION = 'v2.12.15'
/** Pages are read from the log in batches, which servers have had since then. */
const LEAST = [2, 11]

/** The version of a server; undefined where it does not start. */
function versionOf(path) {
  const { stdout, status } = spawnSync(path, ['--version'], { encoding: 'utf8' })
  return status === 0 ? /v(\d+)\.(\d+)\.\d+/.exec(stdout) : undefined
}

function serves(path) {
  const [, major, minor] = versionOf(path) ?? []
  if (major === undefined) return false
  return Number(major) > LEAST[0] || (Number(major) === LEAST[0] && Number(minor) >= LEAST[1])
}

/** A folder that outlives this run, since building takes a minute. */
function cache() {
  const folder = join(process.env.XDG_CACHE_HOME ?? join(homedir() || tmpdir(), '.cache'), 'sluice')
  mkdirSync(folder, { recursive: true })
  return folder
}

function build() {
  const folder = join(cache(), `nats-server-${VERSION}`)
  const path = join(folder, 'nats-server')
  if (existsSync(path) && serves(path)) return path
  const { status } = spawnSync('go', ['install', `github.com/nats-io/nats-server/v2@${VERSION}`], {
    env: { ...process.env, GOBIN: folder },
    stdio: 'ignore',
  })
  return status === 0 && serves(path) ? path : undefined
}

/** The path of a server; undefined where none can be had. */
export function findServer() {
  for (const path of [process.env.NATS_SERVER, 'nats-server'])
    if (path !== undefined && serves(path)) return path
  return build()
}

/** What to say where there is none: Debian's package is 2.9. */
export const noServer = `skipped: there is no nats-server of version ${LEAST.join('.')} or later on the path, and Go could not build ${VERSION}`
