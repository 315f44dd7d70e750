// Starts real servers of NATS, one or a cluster, on loopback.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findServer } from './find-server.mjs'

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}

/** One server: it keeps its port and its store while it is stopped, killed and started again. */
function createNode(folder, name, port, { config, jetstream }) {
  const file = join(folder, `${name}.conf`)
  let child
  let output = ''
  writeFileSync(
    file,
    `server_name: ${name}
listen: "127.0.0.1:${port}"
jetstream { store_dir: "${join(folder, name)}", max_file_store: 20GB, max_memory_store: 1GB, ${jetstream} }
${config}`,
  )

  async function start() {
    output = ''
    child = spawn(findServer(), ['-c', file], { stdio: ['ignore', 'ignore', 'pipe'] })
    const started = child
    await new Promise((resolve, reject) => {
      started.once('error', reject)
      started.once('exit', code => reject(new Error(`nats-server ended with ${code}:\n${output}`)))
      started.stderr.on('data', data => {
        output = (output + data).slice(-20_000)
        if (output.includes('Server is ready')) resolve()
      })
    })
  }

  async function end(signal) {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill(signal)
    await ended
  }

  return {
    name,
    port,
    get pid() {
      return child?.pid
    },
    get output() {
      return output
    },
    start,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
    /** Leaves it running, and deaf. */
    freeze: () => child.kill('SIGSTOP'),
    thaw: () => child.kill('SIGCONT'),
  }
}

/** Starts a server, or a cluster of several, whose files are in a folder below `folder`. */
export async function startNats({
  nodes: count = 1,
  config = '',
  jetstream = '',
  folder: place = tmpdir(),
} = {}) {
  const folder = mkdtempSync(join(place, 'sluice-nats-'))
  const ports = await Promise.all(Array.from({ length: 2 * count }, freePort))
  const routes = ports.slice(count).map(port => `"nats://127.0.0.1:${port}"`)
  const nodes = Array.from({ length: count }, (_, index) => {
    const cluster =
      count === 1
        ? ''
        : `cluster { name: sluice, listen: "127.0.0.1:${ports[count + index]}", routes: [${routes}] }`
    const settings = { config: `${cluster}\n${config}`, jetstream }
    return createNode(folder, `n${index + 1}`, ports[index], settings)
  })
  await Promise.all(nodes.map(node => node.start()))
  const endAll = () => nodes.map(node => node.kill())
  process.once('exit', endAll)
  return {
    nodes,
    folder,
    servers: nodes.map(({ port }) => `127.0.0.1:${port}`),
    async close() {
      process.off('exit', endAll)
      await Promise.all(endAll())
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}
