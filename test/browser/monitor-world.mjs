// `sluice monitor` as its users start it.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const command = fileURLToPath(new URL('../../packages/cli/dist/esm/sluice.js', import.meta.url))

/** What tells the command of a data engine. */
export const envOf = ({ endpoint, wsEndpoint, apiKey, userSecret }) => ({
  REST_URL: endpoint,
  WS_URL: wsEndpoint,
  API_KEY: apiKey,
  USER_SECRET: userSecret,
})

/** Starts the monitor on any free port, and waits for its URL. */
export async function startMonitor(args, env = {}) {
  const child = spawn(process.execPath, [command, 'monitor', '--port', '0', ...args], {
    env: { PATH: process.env.PATH, NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = new Promise(resolve => child.once('exit', code => resolve(code)))
  for await (const line of createInterface({ input: child.stdout })) {
    const [, url] = /^the monitor is at (\S+)$/.exec(line) ?? []
    if (url === undefined) continue
    return {
      url,
      pid: child.pid,
      /** Ends it as Ctrl-C does. Resolves with its exit code. */
      stop() {
        child.kill('SIGINT')
        return ended
      },
      kill() {
        child.kill('SIGKILL')
        return ended
      },
    }
  }
  throw new Error(`the monitor has ended with ${await ended}`)
}
