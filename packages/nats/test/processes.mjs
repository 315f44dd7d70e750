// Relays and workers as processes, the files that they write, and what the log holds beside that.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { jetstream } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'

/** Feeds in milliseconds. */
export const makeFeeds = count =>
  Array.from({ length: count }, (_, index) => `0x1003${index.toString(16).padStart(60, '0')}`)

/** A report by its feed and time. */
export const keyOf = ({ feedID, observationsTimestamp }) => `${feedID}@${observationsTimestamp}`

/** What the lines of one kind say, in a file that a program has written. */
export const linesOf = (kind, lines) =>
  lines.filter(line => line.startsWith(`${kind} `)).map(line => line.slice(kind.length + 1))

/** Waits until something is true; false where that takes too long. */
export async function until(isTrue, ms, what) {
  const end = performance.now() + ms
  while (!(await isTrue())) {
    if (performance.now() > end) {
      console.log(`not within ${ms} ms: ${what}`)
      return false
    }
    await sleep(250)
  }
  return true
}

/** Starts a program, and again whenever it ends, after the milliseconds that `pause` returns; each time has a file of its own. */
export function supervise(program, name, setting, folder, pause = () => 500) {
  const files = []
  let child
  let isWanted = true
  let kills = 0

  function start() {
    const file = join(folder, `${name}-${files.length}.txt`)
    files.push(file)
    const path = fileURLToPath(new URL(`./programs/${program}.mjs`, import.meta.url))
    child = spawn(process.execPath, [path, JSON.stringify({ ...setting, name, file })], {
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let stderr = ''
    child.stderr.on('data', data => {
      stderr = (stderr + data).slice(-2000)
    })
    child.on('exit', (code, signal) => {
      if (signal === null && code !== 0)
        console.log(`${name} ended with ${code}: ${/\w*Error: .*/.exec(stderr)?.[0]}`)
      if (isWanted) setTimeout(start, pause())
    })
  }

  start()
  return {
    name,
    get kills() {
      return kills
    },
    /** The lines that each of its processes has written. */
    lines: () =>
      files.map(file =>
        existsSync(file)
          ? readFileSync(file, 'utf8')
              .split('\n')
              .filter(line => line !== '')
          : [],
      ),
    kill() {
      kills++
      child.kill('SIGKILL')
    },
    async end() {
      isWanted = false
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGKILL')
      await once(child, 'exit')
    },
  }
}

/** The reports that the log holds, read by the bare library. */
export async function readLog(servers) {
  const connection = await connect({ servers })
  const consumer = await jetstream(connection, { timeout: 10_000 }).consumers.get('SLUICE')
  const { num_pending: count } = await consumer.info()
  const keys = []
  const decoder = new TextDecoder()
  if (count > 0)
    for await (const { data, info } of await consumer.consume({ max_messages: 5000 })) {
      keys.push(keyOf(JSON.parse(decoder.decode(data)).report))
      if (info.pending === 0) break
    }
  await connection.close()
  return keys
}
