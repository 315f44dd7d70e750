// A service in a process of its own, and what it says of itself.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const command = fileURLToPath(new URL('../../packages/cli/dist/esm/sluice.js', import.meta.url))
/** Ends with this process, whatever ends it. */
const running = new Set()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

export const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

/** Waits until a check gives a value, and returns the value. */
export async function until(what, check, ms = 60_000) {
  const end = performance.now() + ms
  for (;;) {
    const found = await check()
    if (found) return found
    if (performance.now() > end) throw new Error(`${what}: not within ${ms / 1000} s`)
    await pause(100)
  }
}

/** Runs the command, or another program. */
export function startProcess(args, { program = command, env = {}, cwd } = {}) {
  const child = spawn(process.execPath, [program, ...args], {
    env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
    cwd,
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  running.add(child)
  child.once('exit', () => running.delete(child))
  const output = { out: '', err: '' }
  child.stdout.on('data', data => (output.out += data))
  child.stderr.on('data', data => (output.err += data))
  child.stdin.end()
  const ended = once(child, 'exit')
  return {
    child,
    output,
    ended,
    find: (stream, pattern) =>
      until(
        `${pattern} of ${args.slice(0, 3).join(' ')}: ${output.err}`,
        () => pattern.exec(output[stream])?.[1],
      ),
    async stop(signal = 'SIGTERM') {
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill(signal)
      await ended
    },
  }
}

/** Runs the command to its end, and returns what it printed. */
export async function runCommand(args, options) {
  const running = startProcess(args, options)
  const [code] = await running.ended
  if (code !== 0) throw new Error(`sluice ${args.join(' ')}: ${code}: ${running.output.err}`)
  return running.output.out
}

/** A service whose pages are at the URL that it prints. */
export async function watchService(name, running) {
  const metricsURL = await running.find('err', /metrics are at (http:\/\/\S+)\/metrics/)
  return {
    name,
    running,
    target: new URL(metricsURL).host,
    async ready() {
      const answer = await fetch(`${metricsURL}/ready`)
      return { status: answer.status, body: await answer.text() }
    },
  }
}
