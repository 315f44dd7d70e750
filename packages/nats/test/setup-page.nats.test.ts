import { spawn, spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { connect } from '@nats-io/transport-node'
import { closers, feed, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'
import { createRelay } from '../index.js'
import { serverConfig } from './support/permissions.js'

const { NATS_SERVER: program = 'nats-server' } = process.env
const root = join(__dirname, '../../..')

/** The only block of a language in a page. */
function blockOf(path: string, language: string): string {
  const page = readFileSync(join(root, path), 'utf8')
  const [found = '', ...others] = page.split(`\n\`\`\`${language}\n`).slice(1)
  expect(others).toEqual([])
  return found.split('\n```')[0] ?? ''
}

test('a server accepts the configuration of a cluster, with the users of the repository', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-conf-'))
  closers.push(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'nats.conf')
  writeFileSync(
    file,
    blockOf('docs/guides/scale-out.md', 'conf').replace(
      '"/data"',
      JSON.stringify(join(folder, 'data')),
    ),
  )
  const users = join(root, 'packages/cli/containers/nats/users.conf')
  copyFileSync(users, join(folder, 'users.conf'))
  const { status, stderr } = spawnSync(program, ['-t', '-c', file], {
    encoding: 'utf8',
  })
  expect([status, stderr]).toEqual([0, expect.stringContaining('is valid')])
})

test('the worker of the page gets reports as the user queue, and ends with SIGTERM', async () => {
  const file = join(root, 'packages/nats/dist/worker-of-the-page.mjs')
  writeFileSync(file, blockOf('docs/reference/scale-out.md', 'js'))
  closers.push(() => rmSync(file))
  const world = await startWorld({ config: serverConfig() })
  const engine = await world.engine()
  const connection = await connect({
    ...{ servers: world.servers.servers, user: 'relay', pass: 'relay' },
    inboxPrefix: '_INBOX_relay',
  })
  closers.push(() => connection.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: false }
  const relay = await createRelay({ config, connection, feedIDs: feed(1), create: true })
  closers.push(() => relay.close())
  const source = readFileSync(file, 'utf8')
  // The users of the tests have an inbox of their own, each.
  writeFileSync(
    file,
    source.replace('user: NATS_USER,', "user: NATS_USER, inboxPrefix: '_INBOX_queue',"),
  )
  const child = spawn(process.execPath, [file], {
    env: {
      PATH: process.env.PATH ?? '',
      ...{ NATS_SERVERS: `127.0.0.1:1,${world.servers.servers}`, METRICS_PORT: '0' },
      ...{ NATS_USER: 'queue', NATS_PASSWORD: 'queue', FEEDS: feed(1) },
    },
  })
  closers.push(() => child.kill('SIGKILL'))
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', data => {
      output += data
    })
  const timer = setInterval(() => engine.publish(feed(1)), 50)
  closers.push(() => clearInterval(timer))
  child.once('error', error => {
    output += error.message
  })
  let hasEnded = false
  const ended = new Promise(resolve =>
    child.once('close', code => {
      hasEnded = true
      resolve(code)
    }),
  )
  await until(() => output.includes(`${feed(1)} `) || hasEnded)
  expect(output).toContain(`${feed(1)} `)
  expect(relay.getMetrics().stored).toBeGreaterThan(0)
  child.kill('SIGTERM')
  expect([await ended, output.replace(/^0x.*\n/gm, '')]).toEqual([0, ''])
}, 40_000)
