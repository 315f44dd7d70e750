// A real Prometheus: that of the environment, or, for root on Debian and its like, one that is installed now.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const works = path => spawnSync(path, ['--version'], { stdio: 'ignore' }).status === 0

/** The path of a program of Prometheus; undefined where none can be had. */
export function findPrometheus(name = 'prometheus') {
  if (works(name)) return name
  if (process.getuid?.() !== 0) return undefined
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) =>
    spawnSync('apt-get', ['-q', ...args], { stdio: 'ignore', env }).status === 0
  const add = () => apt('install', '-y', '--no-install-recommends', 'prometheus')
  if (!add() && apt('update')) add()
  return works(name) ? name : undefined
}

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** Starts a Prometheus that scrapes these targets every second: `{ job: 'host:port' }`. */
export async function startPrometheus(targets) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-prometheus-'))
  const port = await freePort()
  const jobs = Object.entries(targets).map(([job_name, target]) => ({
    job_name,
    static_configs: [{ targets: [target] }],
  }))
  const config = { global: { scrape_interval: '1s' }, scrape_configs: jobs }
  writeFileSync(join(folder, 'prometheus.yml'), JSON.stringify(config))
  const child = spawn(
    findPrometheus(),
    [
      `--config.file=${join(folder, 'prometheus.yml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
    ],
    { stdio: 'ignore' },
  )
  process.once('exit', () => child.kill('SIGKILL'))
  const url = `http://127.0.0.1:${port}`
  const isUp = () =>
    fetch(`${url}/-/ready`).then(
      ({ ok }) => ok,
      () => false,
    )
  while (!(await isUp())) await new Promise(resolve => setTimeout(resolve, 100))
  return {
    url,
    /** The series of an instant query: labels and value. */
    async query(expression) {
      const answer = await fetch(`${url}/api/v1/query?query=${encodeURIComponent(expression)}`)
      const { data, error } = await answer.json()
      if (data === undefined) throw new Error(`${expression}: ${error}`)
      return data.result.map(({ metric, value }) => ({ ...metric, value: Number(value[1]) }))
    },
    async close() {
      child.kill('SIGKILL')
      await once(child, 'exit')
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
