// A relay, a gateway and a worker over a log, and a sink, and how each is made to fail.

import { spawnSync } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { startNats } from '../support/nats/server.mjs'
import { freePort } from './prometheus.mjs'
import { pause, startProcess, watchService } from './service.mjs'

const feed = index => `0x1003${index.toString(16).padStart(60, '0')}`
const feeds = [feed(1), feed(2)]

/** A user without a name may do everything but what is denied. */
const authorization = (denied = []) => `
no_auth_user: service
authorization { users: [
  { user: admin, password: admin }
  { user: service, password: service, permissions: { publish: { allow: ">", deny: ${JSON.stringify(denied)} }, subscribe: ">" } }
] }`

/**
 * A small disk of its own in a folder: memory that root mounts. Undefined where that is not allowed.
 */
function mountDisk() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-disk-'))
  const mount = ['-t', 'tmpfs', '-o', 'size=32m', 'tmpfs', folder]
  if (spawnSync('mount', mount, { stdio: 'ignore' }).status !== 0) return undefined
  const file = join(folder, 'fill')
  return {
    folder,
    fill() {
      try {
        writeFileSync(file, Buffer.alloc(33_554_432))
      } catch (error) {
        if (error.code !== 'ENOSPC') throw error
      }
    },
    empty: () => rmSync(file),
    unmount: () => spawnSync('umount', ['-l', folder], { stdio: 'ignore' }),
  }
}

/** A server of NATS whose permissions can be changed while it runs. */
async function startLog(folder) {
  const servers = await startNats({ config: authorization(), ...(folder && { folder }) })
  const [node] = servers.nodes
  const file = join(servers.folder, `${node.name}.conf`)
  const admin = await connect({
    servers: servers.servers,
    user: 'admin',
    pass: 'admin',
    maxReconnectAttempts: -1,
    reconnectTimeWait: 200,
  })
  const manager = await jetstreamManager(admin, { checkAPI: false })
  const settings = {
    name: 'SLUICE',
    subjects: ['sluice.*.*'],
    storage: 'file',
    allow_direct: true,
    duplicate_window: 600e9,
  }
  return {
    ...servers,
    node,
    manager,
    admin,
    add: (more = {}) => manager.streams.add({ ...settings, ...more }),
    remove: () => manager.streams.delete('SLUICE'),
    change: more => manager.streams.update('SLUICE', more),
    async deny(...subjects) {
      const text = readFileSync(file, 'utf8')
      const [before] = text.split('\nno_auth_user')
      writeFileSync(file, before + authorization(subjects))
      process.kill(node.pid, 'SIGHUP')
    },
    async close() {
      await admin.close()
      await servers.close()
    },
  }
}

const startEngine = () => startDataEngine({ feeds, intervalMs: 100, history: 0, origins: 2 })

const environment = ({ endpoint, wsEndpoint, apiKey, userSecret }) => ({
  REST_URL: endpoint,
  WS_URL: wsEndpoint,
  API_KEY: apiKey,
  USER_SECRET: userSecret,
})

const startRelay = (log, engine, more) =>
  startProcess(
    ['relay', '--nats', log.servers.join(','), '--feeds', feeds.join(','), '--create', ...more],
    { env: environment(engine) },
  )

/** The faults of every service that reads a log. */
const logFaults = log => [
  {
    fault: 'NATS is killed',
    cause: 'log-away',
    begin: () => log.node.kill(),
    end: () => log.node.start(),
  },
  {
    fault: 'the stream is deleted',
    cause: 'stream-missing',
    begin: () => log.remove(),
    // A relay creates it again by itself.
    end: () => log.add().catch(() => undefined),
  },
  {
    fault: 'the permission to read the stream is withdrawn',
    cause: 'read-denied',
    begin: () => log.deny('$JS.API.STREAM.INFO.SLUICE'),
    end: () => log.deny(),
  },
]

export async function relayLane() {
  const disk = mountDisk()
  const [log, engine] = await Promise.all([startLog(disk?.folder), startEngine()])
  const running = startRelay(log, engine, ['--metrics', '0'])
  const service = await watchService('relay', running)
  return {
    service,
    faults: [
      {
        fault: 'the service is down',
        cause: 'no-connection',
        begin: () => engine.stop(),
        end: () => engine.start(),
      },
      ...logFaults(log),
      {
        fault: 'the permission to publish is withdrawn',
        cause: 'publish-denied',
        begin: () => log.deny('sluice.>'),
        end: () => log.deny(),
      },
      {
        fault: disk === undefined ? 'the log has no room' : 'the disk of the log is full',
        cause: 'log-full',
        begin: disk?.fill ?? (() => log.change({ max_bytes: 2000, discard: 'new' })),
        end: disk?.empty ?? (() => log.change({ max_bytes: -1, discard: 'old' })),
      },
      {
        fault: 'NATS is suspended for 40 s',
        cause: 'lagging',
        begin: () => log.node.freeze(),
        end: () => log.node.thaw(),
      },
    ],
    async close() {
      await running.stop()
      await engine.close()
      await log.close()
      disk?.unmount()
    },
  }
}

export async function gatewayLane() {
  const [log, engine] = await Promise.all([startLog(), startEngine()])
  const relay = startRelay(log, engine, [])
  await relay.find('out', /(relaying)/)
  const token = randomBytes(24).toString('hex')
  const sha256 = createHash('sha256').update(token).digest('hex')
  const file = join(log.folder, 'tokens.json')
  const writeTokens = text => writeFileSync(file, text, { mode: 0o600 })
  const good = JSON.stringify({ page: { sha256 } })
  writeTokens(good)
  const running = startProcess([
    ...['relay', '--nats', log.servers.join(','), '--gateway', '0', '--tokens', file],
    ...['--max-connections', '1', '--metrics', '0'],
  ])
  const url = await running.find('out', /serving pages at (http:\S+?);/)
  const service = await watchService('gateway', running)
  let socket
  return {
    service,
    faults: [
      ...logFaults(log),
      {
        fault: 'the file of tokens is not JSON',
        cause: 'tokens-refused',
        begin: () => writeTokens('{ "page": '),
        end: () => writeTokens(good),
      },
      {
        fault: 'as many streams are open as the limit allows',
        cause: 'streams-full',
        async begin() {
          const { default: WebSocket } = await import('ws')
          const query = `feedIDs=${feeds[0]}`
          socket = new WebSocket(`${url.replace('http', 'ws')}/api/v1/ws?${query}`, {
            headers: { authorization: `Bearer ${token}` },
          })
          socket.on('error', () => undefined)
        },
        end: () => socket.terminate(),
      },
      {
        fault: 'NATS is suspended',
        cause: 'tail-lost',
        begin: () => log.node.freeze(),
        end: () => log.node.thaw(),
      },
    ],
    async close() {
      await running.stop()
      await relay.stop()
      await engine.close()
      await log.close()
    },
  }
}

export async function workerLane() {
  const [log, engine] = await Promise.all([startLog(), startEngine()])
  const relay = startRelay(log, engine, [])
  await relay.find('out', /(relaying)/)
  const program = fileURLToPath(new URL('worker.mjs', import.meta.url))
  const port = await freePort()
  const mode = join(log.folder, 'mode')
  writeFileSync(mode, 'well')
  const setting = JSON.stringify({ servers: log.servers, feeds, port, mode })
  const running = startProcess([setting], { program })
  const service = await watchService('worker', running)
  const turn = how => () => writeFileSync(mode, how)
  return {
    service,
    faults: [
      ...logFaults(log),
      {
        fault:
          'the consumer of the queue is deleted, and the worker has no permission to create a consumer',
        cause: 'queue-missing',
        async begin() {
          await log.deny('$JS.API.CONSUMER.DURABLE.CREATE.>', '$JS.API.CONSUMER.CREATE.>')
          await pause(500)
          await log.manager.consumers.delete('SLUICE', 'pricing')
        },
        end: () => log.deny(),
      },
      {
        fault: 'the handler acknowledges nothing',
        cause: 'queue-stuck',
        begin: turn('stuck'),
        end: turn('well'),
      },
      {
        fault: 'the log contains messages that are not reports',
        cause: 'dead-letters',
        begin: () => {
          for (let at = 0; at < 3; at++) log.admin.publish(`sluice.3.${feeds[0]}`, 'junk')
        },
        end: () => undefined,
        // It is said for a minute.
        isForGood: true,
      },
    ],
    async close() {
      await running.stop()
      await relay.stop()
      await engine.close()
      await log.close()
    },
  }
}

export async function sinkLane() {
  const engine = await startEngine()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-sink-'))
  const mode = join(folder, 'mode')
  writeFileSync(mode, 'well')
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const of = { endpoint, wsEndpoint, apiKey, userSecret }
  const setting = JSON.stringify({ service: of, feeds, port: await freePort(), mode })
  const program = fileURLToPath(new URL('sink.mjs', import.meta.url))
  const running = startProcess([setting], { program })
  const service = await watchService('sink', running)
  const turn = how => () => writeFileSync(mode, how)
  return {
    service,
    faults: [
      {
        fault: 'the store fails',
        cause: 'store-away',
        begin: turn('away'),
        end: turn('well'),
      },
      {
        fault: 'the store cannot hold reports',
        cause: 'reports-refused',
        begin: turn('full'),
        end: turn('well'),
        // It is said for a minute.
        isForGood: true,
      },
    ],
    async close() {
      await running.stop()
      await engine.close()
      rmSync(folder, { recursive: true })
    },
  }
}
