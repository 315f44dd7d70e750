// What the profile log of the compose file runs, without Docker: a server of NATS with its files, and
// relay and gateway with their arguments and secrets.
import { spawn } from 'node:child_process'
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { connect } from '@nats-io/transport-node'
import { startDataEngine } from '@sluice/engine'
import { natsWire, workerPreset } from '@sluice/nats'
import { startCommand } from '@sluice/test-support/command.js'
import { openRaw } from '@sluice/test-support/nats/gateway.js'
import { until } from '@sluice/test-support/waiting.js'
import { createClient } from 'sluice'
import { parse } from 'yaml'

const containers = join(__dirname, '../../containers')
const { services, secrets } = parse(readFileSync(join(containers, 'compose.yaml'), 'utf8'), {
  merge: true,
}) as {
  readonly services: Readonly<Record<string, { readonly command: readonly string[] }>>
  readonly secrets: Readonly<Record<string, { readonly file: string }>>
}
/** A text of the compose file where no variable is set. */
const withDefaults = (text: string): string => text.replace(/\$\{\w+:-([^}]*)\}/g, '$1')

const folder = mkdtempSync(join(tmpdir(), 'sluice-compose-'))
// Only where it listens and stores differs from the container.
const config = readFileSync(join(containers, 'nats/nats.conf'), 'utf8')
  .replace('"0.0.0.0:4222"', '"127.0.0.1:-1"')
  .replace('"127.0.0.1:8222"', '"127.0.0.1:-1"')
  .replace('"/data"', JSON.stringify(join(folder, 'data')))
writeFileSync(join(folder, 'nats.conf'), config)
copyFileSync(join(containers, 'nats/users.conf'), join(folder, 'users.conf'))
const { NATS_SERVER: program = 'nats-server' } = process.env
const nats = spawn(program, ['-c', join(folder, 'nats.conf')])
let output = ''
nats.stderr.on('data', chunk => {
  output += chunk
})
let server = ''
beforeAll(async () => {
  await until(() => output.includes('Server is ready'))
  const [, port = ''] = /client connections on 127\.0\.0\.1:(\d+)/.exec(output) ?? []
  server = `127.0.0.1:${port}`
})
afterAll(() => {
  nats.kill('SIGKILL')
  rmSync(folder, { recursive: true, maxRetries: 5 })
})

/** Starts the command of a service of the compose file. */
function start(name: string, env: Readonly<Record<string, string>> = {}) {
  const words = (services[name]?.command ?? []).map(word =>
    withDefaults(word)
      .replace('nats://nats:4222', server)
      .replace(/\/run\/secrets\/(\w+)/, (_all, secret: string) =>
        join(containers, withDefaults(secrets[secret]?.file ?? '')),
      )
      .replace(/=0\.0\.0\.0(:\d+)?$/, (_all, port?: string) =>
        port === undefined ? '=127.0.0.1' : '=127.0.0.1:0',
      )
      .replace('--gateway=8090', '--gateway=0'),
  )
  return startCommand(words, { env })
}

test('the profile log relays, and serves pages, with the rights of its users', async () => {
  const demo = readFileSync(join(containers, 'demo.env'), 'utf8')
  const [, apiKey = ''] = /^API_KEY=(.+)$/m.exec(demo) ?? []
  const [, userSecret = ''] = /^USER_SECRET=(.+)$/m.exec(demo) ?? []
  await using engine = await startDataEngine({ apiKey, userSecret, origins: 2 })
  const feedID = engine.feeds[0] as string
  const relay = start('relay', { REST_URL: engine.endpoint, WS_URL: engine.wsEndpoint })
  await until(() => relay.output.out.includes('relaying 1 feed'))
  const gateway = start('gateway')
  await until(() => gateway.output.out.includes('serving pages at'))

  const connection = await connect({
    ...{ servers: server, user: 'worker', pass: 'password-of-the-demo-worker' },
  })
  const client = createClient({ ...natsWire(connection), plugins: workerPreset() })
  const stream = client.createStream(feedID)
  const reports: string[] = []
  stream.on('report', report => reports.push(report.feedID))
  await stream.connect()
  await until(() => reports.length > 0)
  await client.close()
  await connection.close()

  // The doctor and the monitor have a user of their own, and others are told what they may not do.
  const doctor = (name: string) =>
    startCommand(['doctor', '--nats', server], {
      env: { NATS_USER: name, NATS_PASSWORD: `password-of-the-demo-${name}` },
    }).ended
  const monitor = startCommand(['monitor', '--nats', server, '--port', '0'], {
    env: { NATS_USER: 'monitor', NATS_PASSWORD: 'password-of-the-demo-monitor' },
  })
  await until(() => monitor.output.out.includes('the monitor is at'))
  monitor.child.kill('SIGTERM')
  expect(await monitor.ended).toMatchObject({ code: 0, err: '' })
  expect(await doctor('monitor')).toMatchObject({
    code: 0,
    out: expect.stringMatching(/stream SLUICE serves[\s\S]*its last report is/),
  })
  expect(output).not.toMatch(/Violation/)
  const { code, out } = await doctor('gateway')
  expect(out).toContain(
    'this user may not list the readers ($JS.API.CONSUMER.LIST.SLUICE): the check is left out',
  )
  expect(code).toBe(0)
  const relayUser = await doctor('relay')
  expect(relayUser.out).toContain(
    'this user may not read reports ($JS.API.DIRECT.GET.SLUICE): the check is left out',
  )

  const [, host = ''] = /http:\/\/(\S+);/.exec(gateway.output.out) ?? []
  const origin = 'http://127.0.0.1:3000'
  const page = await openRaw({ wsURL: `ws://${host}` }, [feedID], {
    ...{ origin, token: 'token-of-the-demo' },
  })
  await until(() => page.frames.length > 0)

  for (const { child, ended } of [gateway, relay]) {
    child.kill('SIGTERM')
    expect(await ended).toMatchObject({ code: 0 })
  }
})
