// The command in place of a client: the reports that it prints are those that it delivers.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const program = fileURLToPath(new URL('../../../packages/cli/dist/esm/sluice.js', import.meta.url))

/** Starts `sluice` with these arguments, and takes it into the account of the world. */
export function startCommand(world, args) {
  const { apiKey, userSecret, endpoint, wsEndpoint } = world.config
  const keys = { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
  const child = spawn(process.execPath, [program, ...args, '--json'], {
    env: { ...process.env, ...keys },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const exited = once(child, 'exit')
  const command = {
    reports: [],
    attempts: [],
    events: [],
    of: () => [],
    /** What it says on standard error. */
    complaint: '',
    /** Ends it as Ctrl-C does; its exit code. */
    async stop() {
      child.kill('SIGINT')
      const [code] = await exited
      return code
    },
  }
  createInterface({ input: child.stdout }).on('line', line => {
    const { feedID, observationsTimestamp: time, fullReport } = JSON.parse(line)
    const digest = createHash('md5').update(fullReport).digest('base64')
    command.reports.push({ feedID, time, digest, at: Date.now() })
  })
  child.stderr.setEncoding('utf8').on('data', text => {
    command.complaint += text
  })
  world.defer(() => child.kill('SIGKILL'))
  world.clients.push(command)
  return command
}
