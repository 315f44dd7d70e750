// A Postgres of the tests: found or installed, with its data in a folder of its own.
import { spawn, spawnSync } from 'node:child_process'
import {
  appendFileSync,
  chownSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  endProcess,
  freePorts,
  installPackages,
  isProgram,
  onPath,
  waitUntilUp,
} from './server-programs.mjs'

const PACKAGES = '/usr/lib/postgresql'
const USER = 'sluice'
/** It has to be escaped in a URL. */
const PASSWORD = 'p@ss/word #1'

/** The folder of the programs of a server; undefined where there is none. */
function findInstalled() {
  let versions = []
  try {
    versions = readdirSync(PACKAGES).sort((one, other) => Number(other) - Number(one))
  } catch {
    // There is no such package.
  }
  const folders = [
    ...onPath('initdb').map(dirname),
    ...versions.map(version => join(PACKAGES, version, 'bin')),
  ]
  return folders.find(folder => ['initdb', 'postgres'].every(name => isProgram(join(folder, name))))
}

/** The folder of the programs of a Postgres; undefined where none can be had. */
export function findPostgres() {
  if (findInstalled() === undefined) installPackages('postgresql')
  return findInstalled()
}

/** What to say where there is none. */
export const noPostgres =
  'there is no Postgres: neither in PATH nor in /usr/lib/postgresql, and none could be installed (Debian has the package postgresql)'

/** The user that runs the server: Postgres refuses to run as root. */
function serverUser() {
  if (process.getuid?.() !== 0) return {}
  for (const name of ['postgres', 'nobody']) {
    const [uid, gid] = ['-u', '-g'].map(flag => {
      const { status, stdout } = spawnSync('id', [flag, name], { encoding: 'utf8' })
      return status === 0 ? Number(stdout) : undefined
    })
    if (uid !== undefined && gid !== undefined) return { uid, gid }
  }
  throw new Error('Postgres does not run as root, and there is neither a user postgres nor nobody')
}

/** Starts a Postgres on 127.0.0.1 and on a socket in its folder. */
export async function startPostgres(programs = findPostgres()) {
  if (programs === undefined) throw new Error(noPostgres)
  const user = serverUser()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-postgres-'))
  const data = join(folder, 'data')
  const passwords = join(folder, 'password')
  writeFileSync(passwords, PASSWORD)
  if (user.uid !== undefined)
    for (const path of [folder, passwords]) chownSync(path, user.uid, user.gid)
  const initdb = spawnSync(
    join(programs, 'initdb'),
    // Without --sync-only data reach the disk in their own time: no test loses the machine.
    [
      '-D',
      data,
      '-U',
      USER,
      '-A',
      'scram-sha-256',
      `--pwfile=${passwords}`,
      '-N',
      '-E',
      'UTF8',
    ].concat(['--locale=C']),
    { ...user, cwd: folder, encoding: 'utf8' },
  )
  if (initdb.status !== 0) throw new Error(`initdb failed:\n${initdb.stdout}${initdb.stderr}`)
  const [port] = await freePorts(1)
  appendFileSync(
    join(data, 'postgresql.conf'),
    `\nlisten_addresses = '127.0.0.1'\nport = ${port}\nunix_socket_directories = '${folder}'\n`,
  )

  let output = ''
  let server

  async function start() {
    for (;;) {
      try {
        return await startOnce()
      } catch (error) {
        // After SIGKILL the server's other processes live on for a moment.
        const isEarly = /shared memory block|lock file|Address already in use/.test(error.message)
        if (!isEarly) throw error
        await sleep(100)
      }
    }
  }

  async function startOnce() {
    output = ''
    server = spawn(join(programs, 'postgres'), ['-D', data], {
      ...user,
      cwd: folder,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    for (const stream of [server.stdout, server.stderr])
      stream.on('data', chunk => {
        output = (output + chunk).slice(-20_000)
      })
    await waitUntilUp(server, isReady, () => output)
  }

  /** The server writes its state into the eighth line. */
  function isReady() {
    try {
      const lines = readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')
      return Number(lines[0]) === server.pid && lines[7]?.trim() === 'ready'
    } catch {
      return false
    }
  }

  await start()
  const login = `${USER}:${encodeURIComponent(PASSWORD)}`
  return {
    port,
    user: USER,
    password: PASSWORD,
    /** The folder of the data. */
    data,
    /** The folder of the socket. */
    folder,
    /** What the server has written lately. */
    get output() {
      return output
    },
    url: (database = 'postgres') => `postgres://${login}@127.0.0.1:${port}/${database}`,
    socketURL: (database = 'postgres') =>
      `postgres://${login}@${encodeURIComponent(folder)}:${port}/${database}`,
    /** Ends the server: SIGINT is `pg_ctl -m fast`, SIGQUIT is `-m immediate`. */
    stop: signal => endProcess(server, signal),
    /** Starts it again, on the same port. */
    start,
    /** Adds settings and has the server read them. */
    configure(lines) {
      appendFileSync(join(data, 'postgresql.conf'), `\n${lines}\n`)
      server.kill('SIGHUP')
    },
    /** The user that files of the server must belong to. */
    owner: user,
    async close() {
      await endProcess(server, 'SIGINT')
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 })
    },
  }
}
