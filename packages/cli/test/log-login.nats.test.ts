import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import type { DataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'

const usersWith = (password: string): string =>
  `authorization { users: [{ user: relay, password: "${password}" }] }`

const environmentOf = (
  { apiKey, userSecret, endpoint, wsEndpoint }: DataEngine,
  password: string,
) => ({
  ...{ API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint },
  ...{ NATS_USER: 'relay', NATS_PASSWORD: password },
})

/** Changes the password of the only user at every server. */
function changePassword({ servers }: LogWorld, from: string, to: string): void {
  for (const { name, pid = 0 } of servers.nodes) {
    const file = join(servers.folder, `${name}.conf`)
    writeFileSync(file, readFileSync(file, 'utf8').replace(`"${from}"`, `"${to}"`))
    process.kill(pid, 'SIGHUP')
  }
}

const ready = async (err: string) => {
  const [, url = ''] = /metrics are at (\S+)\/metrics/.exec(err) ?? []
  const answer = await fetch(`${url}/ready`)
  return `${answer.status} ${await answer.text()}`
}

test('a wrong password ends the relay and the monitor at once, whose cluster names its servers', async () => {
  const world = await startWorld({ nodes: 3, config: usersWith('right') })
  const engine = await world.engine()
  const { servers } = world.servers
  const env = environmentOf(engine, 'wrong-one')
  const some = ['--feeds', feed(1), '--create', '--no-ha']
  for (const args of [
    ['relay', '--nats', servers.join(), ...some],
    ['relay', '--nats', servers[0] as string, ...some],
    ['monitor', '--nats', servers.join(), '--port', '0'],
    ['doctor', '--nats', servers.join()],
  ]) {
    const begunAt = performance.now()
    const { code, out, err } = await startCommand(args, { env }).ended
    expect([args[0], out + err]).toEqual([
      args[0],
      expect.stringContaining('Authorization Violation: check NATS_USER and NATS_PASSWORD'),
    ])
    expect(err + out).not.toContain('wrong-one')
    expect([args[0], code]).toEqual([args[0], 4])
    // The doctor watches the service besides.
    if (args[0] !== 'doctor') expect(performance.now() - begunAt).toBeLessThan(10_000)
  }
}, 60_000)

test('a user that is refused later is one line, and few attempts, until it is known again', async () => {
  const world = await startWorld({ nodes: 3, config: usersWith('right') })
  const engine = await world.engine()
  const args = ['relay', '--nats', world.servers.servers.join(), '--feeds', feed(1), '--no-ha']
  const relay = startCommand([...args, '--create', '--metrics', '0'], {
    env: environmentOf(engine, 'right'),
  })
  await until(() => relay.output.out.includes('relaying'))
  changePassword(world, 'right', 'another')
  await until(() => relay.output.err.includes('login-refused'))
  const attempts = (): number =>
    world.servers.nodes.reduce(
      (sum, { output }) => sum + output.split('authentication error').length - 1,
      0,
    )
  const before = attempts()
  await pause(4000)
  // Each of three servers is asked once a second at most, by the name that was given and by its own.
  expect(attempts() - before).toBeLessThan(16)
  expect(await ready(relay.output.err)).toMatch(
    /^503 relay: not ready\n[\s\S]*login-refused since \S+: NATS refuses the user of this connection: .*Authorization Violation/,
  )
  expect(relay.output.err.match(/login-refused/g)).toHaveLength(1)
  changePassword(world, 'another', 'right')
  await until(() => relay.output.err.includes('login-refused is over'))
  changePassword(world, 'right', 'another')
  await until(() => (relay.output.err.match(/login-refused: /g) ?? []).length === 2)
  relay.child.kill('SIGTERM')
  const begunAt = performance.now()
  expect((await relay.ended).code).toBe(0)
  expect(performance.now() - begunAt).toBeLessThan(12_000)
}, 90_000)

test('a relay that waits says for what, and ends with SIGTERM', async () => {
  const world = await startWorld()
  const engine = await world.engine()
  await engine.stop()
  const { servers } = world.servers
  const args = ['relay', '--nats', servers.join(), '--feeds', feed(1), '--create', '--metrics', '0']
  const relay = startCommand(args, { env: environmentOf(engine, 'any') })
  await until(() => relay.output.err.includes('metrics are at'))
  const { host } = new URL(engine.endpoint)
  const wanted = `503 starting: waiting for stream SLUICE of NATS at ${servers}, and the service at ${host}\n`
  let said = ''
  while (said !== wanted && relay.child.exitCode === null)
    said = await ready(relay.output.err).catch(String)
  relay.child.kill('SIGTERM')
  const { code, err } = await relay.ended
  expect([code, err]).toEqual([0, expect.stringMatching(/^sluice: metrics are at \S+\n/)])
}, 30_000)

test('a relay without a quorum says each thing once, and not that JetStream is off', async () => {
  const world = await startWorld({ nodes: 3 })
  const engine = await world.engine()
  const args = ['relay', '--nats', world.servers.servers.join(), '--feeds', feed(1), '--no-ha']
  const relay = startCommand([...args, '--create', '--replicas', '3'], {
    env: environmentOf(engine, 'any'),
  })
  await until(() => relay.output.out.includes('relaying'))
  const timer = setInterval(() => engine.publish(feed(1)), 100)
  await pause(4500)
  const [n1, n2] = world.servers.nodes
  await Promise.all([n1, n2].map(node => node?.kill()))
  await until(() => relay.output.err.includes('no-quorum: '))
  await pause(15_000)
  clearInterval(timer)
  const lines = relay.output.err.trim().split('\n')
  const kinds = lines.map(line => line.replace(/^\S+Z /, '').replace(/\d+/g, ''))
  const repeated = kinds.filter((kind, at) => kinds.indexOf(kind) !== at)
  expect([repeated, lines.filter(line => /jetstream is not enabled/i.test(line))]).toEqual([[], []])
  relay.child.kill('SIGTERM')
  expect((await relay.ended).code).toBe(0)
}, 90_000)
