// The parent's side of a client that runs in a process of its own.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { pause, until } from './waiting.mjs'

const program = fileURLToPath(new URL('../client/program.mjs', import.meta.url))

/** Starts the client of one SDK: `sluice` or `official`. What it says is kept as it comes. */
export async function startClient(sdk, env = {}) {
  const child = fork(program, [sdk], {
    execArgv: ['--expose-gc'],
    env: { ...process.env, ...env },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    // JSON knows no Infinity.
    serialization: 'advanced',
  })
  const answers = new Map()
  const client = {
    sdk,
    pid: child.pid,
    /** What was delivered: `{ feedID, time, digest, at }`. */
    reports: [],
    events: [],
    attempts: [],
    /** How the process has ended, if it has. */
    exit: undefined,
    complaint: '',
    of: (name, since = 0) => client.events.filter(({ event, at }) => event === name && at >= since),
    /** Has the client do something; rejects when that fails, or takes longer than `ms`, or the process ends. */
    async ask(what, given, ms = 15_000) {
      const id = ++asked
      const answer = new Promise((resolve, reject) => answers.set(id, { resolve, reject }))
      child.send({ id, what, given }, () => undefined)
      const guard = new AbortController()
      const tooLong = pause(ms, guard.signal).then(() => {
        throw new Error(`${what} has not settled within ${ms} ms`)
      })
      try {
        return await Promise.race([answer, tooLong, gone])
      } finally {
        tooLong.catch(() => undefined)
        guard.abort()
        answers.delete(id)
      }
    },
    signal: name => process.kill(child.pid, name),
    async kill() {
      child.kill('SIGKILL')
      await exited
    },
    isAlive: () => client.exit === undefined,
  }
  let asked = 0
  child.stderr.setEncoding('utf8').on('data', text => {
    client.complaint = (client.complaint + text).slice(0, 4000)
  })
  child.on('message', ({ reports, event, attempt, id, value, error, at }) => {
    if (reports !== undefined) {
      for (const [feedID, time, digest, at] of reports)
        client.reports.push({ feedID, time, digest, at })
    } else if (event !== undefined) client.events.push({ event, value, at: at ?? Date.now() })
    else if (attempt !== undefined) client.attempts.push(attempt)
    else if (error === undefined) answers.get(id)?.resolve(value)
    else answers.get(id)?.reject(Object.assign(new Error(error.message), error))
  })
  const exited = new Promise(resolve => {
    child.once('exit', (code, signal) => {
      client.exit = { code, signal, at: Date.now() }
      resolve()
    })
  })
  const gone = exited.then(() => {
    throw Object.assign(new Error(`the process has ended: ${complaintOf(client)}`), {
      isGone: true,
    })
  })
  gone.catch(() => undefined)
  child.on('error', () => undefined)
  await Promise.race([until(() => client.of('ready').length > 0, 30_000), gone])
  return client
}

/** The line on which Node says what has ended a process. */
export function complaintOf({ complaint }) {
  return /^\w*Error.*$/m.exec(complaint)?.[0] ?? complaint.trim().split('\n')[0] ?? ''
}
