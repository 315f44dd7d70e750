import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, nkeyAuthenticator, nkeys } from '@nats-io/transport-node'
import type { DataEngine } from '@sluice/engine'
import { queuePreset } from '@sluice/nats'
import { startCommand } from '@sluice/test-support/command.js'
import { hashOf, openRaw, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { pause, until } from '@sluice/test-support/waiting.js'
import { exportJWK, exportSPKI, generateKeyPair, SignJWT } from 'jose'

/** The environment of a relay of the engine. */
const environmentOf = ({ apiKey, userSecret, endpoint, wsEndpoint }: DataEngine) => ({
  API_KEY: apiKey,
  USER_SECRET: userSecret,
  REST_URL: endpoint,
  WS_URL: wsEndpoint,
})

/** Starts `sluice relay` for the log of a world. */
function start(world: LogWorld, engine: DataEngine, ...more: readonly string[]) {
  const servers = world.servers.servers.join()
  return startCommand(['relay', '--nats', servers, ...more], { env: environmentOf(engine) })
}

const feeds = ['--feeds', `${feed(1)},${feed(2)}`, '--no-ha'] as const

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-relay-'))
  closers.push(() => rmSync(path, { recursive: true }))
  return path
}

test('sluice dead-letters lists what a queue has given up, and gives it to the queue again', async () => {
  const world = await startWorld()
  await world.relay(await world.engine())
  const worker = await world.worker({ plugins: queuePreset(), wire: { queue: 'desk' } })
  const log = jetstream(await world.connect())
  await log.publish(`sluice.3.${feed(1)}`, 'no frame')
  await until(() => worker.stream.getMetrics().deadLetters === 1)
  const run = (...more: readonly string[]) =>
    startCommand(['dead-letters', '--nats', world.servers.servers.join(), ...more]).ended
  const listed = await run('--queue', 'desk')
  expect(listed).toMatchObject({ code: 0, err: '' })
  expect(listed.out).toMatch(/^1 {2}\S+Z {2}0x1003\d+ {2}no-report {2}deliveries 1\n1 dead letter/)
  const { out } = await run('--queue', 'desk', '--json')
  expect(JSON.parse(out)).toMatchObject({
    sequence: 1,
    feedID: feed(1),
    data: Buffer.from('no frame').toString('base64'),
  })
  expect(await run('--queue', 'desk', '--republish')).toMatchObject({
    code: 0,
    out: '1 report published again to queue desk\n',
  })
  await until(() => worker.stream.getMetrics().deadLetters === 2)
  expect(await run('--queue', 'none', '--republish')).toMatchObject({
    code: 4,
    err: 'sluice: queue none does not exist: nobody would get its reports again\n',
  })
  expect(await run()).toMatchObject({ code: 2 })
  expect(await run('--queue', 'a b')).toMatchObject({ code: 2 })
})

describe('sluice relay', () => {
  test('creates the stream as it is told, stores what the engine publishes, and ends with SIGTERM', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const options = ['--create', '--max-age', '2h', '--max-bytes', '9000000', '--replicas', '1']
    const names = ['--stream', 'DESK', '--prefix', 'desk.reports', '--name', 'left']
    const relay = start(world, engine, ...feeds, ...options, ...names)
    await until(() => relay.output.out.includes('relaying 2 feeds'))
    for (let at = 0; at < 20; at++) engine.publish(feed(1 + (at % 2)))
    const { streams } = await jetstreamManager(await world.connect())
    let stored = 0
    while (stored < 20) stored = (await streams.info('DESK')).state.messages
    const { config, state } = await streams.info('DESK', { subjects_filter: '>' })
    expect(config).toMatchObject({ max_age: 7200e9, max_bytes: 9_000_000, num_replicas: 1 })
    expect(Object.keys(state.subjects ?? {})).toContain(`desk.reports.3.${feed(1)}`)
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, err: '' })
    const cursor = await streams.getMessage('KV_sluice-cursors', {
      last_by_subj: '$KV.sluice-cursors.left',
    })
    expect(Object.keys(cursor?.json() ?? {})).toHaveLength(2)
  })

  test('that is killed loses nothing, and doubles nothing', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    let publishing = true
    async function publish(): Promise<void> {
      for (let at = 0; publishing; at++) {
        engine.publish(feed(1 + (at % 2)))
        await pause(2)
      }
    }
    const published = publish()
    const connection = await world.connect()
    for (let kill = 0; kill < 3; kill++) {
      const relay = start(world, engine, ...feeds, '--create')
      await until(() => relay.output.out.includes('relaying'))
      await pause(300)
      relay.child.kill('SIGKILL')
      await relay.ended
    }
    const last = start(world, engine, ...feeds)
    await until(() => last.output.out.includes('relaying'))
    publishing = false
    await published
    // Before the first relay there was nobody to store them.
    const { streams } = await jetstreamManager(connection)
    const first = (await streams.getMessage('SLUICE', { seq: 1 }))?.json<Frame>()
    const since = first?.report.observationsTimestamp ?? 0
    const all = engine
      .ledger()
      .filter(({ observationsTimestamp }) => observationsTimestamp >= since)
    let messages = 0
    while (messages < all.length) messages = (await streams.info('SLUICE')).state.messages
    expect(messages).toBe(all.length)
    const times = new Set<string>()
    for (let seq = 1; seq <= messages; seq++) {
      const report = (await streams.getMessage('SLUICE', { seq }))?.json<Frame>().report
      times.add(`${report?.feedID}@${report?.observationsTimestamp}`)
    }
    expect(times.size).toBe(all.length)
    last.child.kill('SIGTERM')
    expect((await last.ended).code).toBe(0)
  })

  test('with --gateway serves pages, with the tokens of a file', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const tokens = join(folder(), 'tokens.json')
    writeFileSync(tokens, JSON.stringify({ dashboard: { sha256: hashOf(token) } }))
    const gateway = ['--gateway', '0', '--tokens', tokens, '--allow-origin', 'https://app.example']
    const both = start(world, engine, ...feeds, '--create', ...gateway)
    await until(() => both.output.out.includes('serving pages at'))
    engine.publish(feed(1))
    // Another serves the same log, without the service's keys.
    const alone = startCommand(['relay', '--nats', world.servers.servers.join(), ...gateway])
    await until(() => alone.output.out.includes('serving pages at'))
    for (const { output } of [both, alone]) {
      const [url = ''] = /http:\/\/\S+(?=;)/.exec(output.out) ?? []
      const stream = await openRaw({ wsURL: url.replace('http', 'ws') }, [feed(1)], {
        origin: 'https://app.example',
      })
      const { fullReport } = engine.publish(feed(1))
      await until(() => stream.frames.some(frame => String(frame).includes(fullReport)))
    }
    for (const { child, ended } of [both, alone]) {
      child.kill('SIGTERM')
      const { code, out, err } = await ended
      expect(code).toBe(0)
      expect(out + err).not.toContain(token)
    }
  })

  test('with --gateway serves holders of JWTs, without a file of tokens, within the limits', async () => {
    const world = await startWorld()
    await world.relay(await world.engine())
    const { publicKey, privateKey } = await generateKeyPair('ES256')
    const path = folder()
    writeFileSync(join(path, 'key.pem'), await exportSPKI(publicKey))
    writeFileSync(join(path, 'keys.json'), JSON.stringify({ keys: [await exportJWK(publicKey)] }))
    const jwt = await new SignJWT({ rights: { connections: 9 } })
      .setProtectedHeader({ alg: 'ES256' })
      .setIssuer('https://login.example')
      .setAudience('reports')
      .setSubject('user')
      .setExpirationTime('5m')
      .sign(privateKey)
    const issuer = ['--jwt-issuer', 'https://login.example', '--jwt-audience', 'reports']
    const limits = ['--jwt-claim', 'rights', '--max-connections', '2', '--max-feeds', '1']
    for (const keys of [
      ['--jwt-jwks', join(path, 'keys.json')],
      ['--jwt-key', join(path, 'key.pem')],
    ]) {
      const nats = ['--nats', world.servers.servers.join(), '--gateway', '0']
      const gateway = startCommand(['relay', ...nats, ...issuer, ...keys, ...limits])
      await until(() => gateway.output.out.includes('serving pages at'))
      const [url = ''] = /http:\/\/\S+(?=;)/.exec(gateway.output.out) ?? []
      const answer = await fetch(`${url}/api/v1/feeds`, {
        headers: { authorization: `Bearer ${jwt}` },
      })
      expect(answer.status).toBe(200)
      const open = (...feeds: readonly string[]) =>
        openRaw({ wsURL: url.replace('http', 'ws') }, feeds, { token: jwt })
      await expect(open(feed(1), feed(2))).rejects.toThrow('feedIDs must be at most 1, not 2')
      await expect(open(feed(1))).rejects.toThrow('not in the log')
      gateway.child.kill('SIGTERM')
      const { code, out, err } = await gateway.ended
      expect(code).toBe(0)
      expect(out + err).not.toContain(jwt)
    }
  })

  test('says that the stream does not exist, or that NATS is away', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    expect(await start(world, engine, ...feeds).ended).toMatchObject({
      code: 4,
      err: 'sluice: stream SLUICE does not exist: a relay with create makes it, at its start and while it runs\n',
    })
    const [node] = world.servers.nodes
    await node.kill()
    const { code, err } = await start(world, engine, ...feeds, '--create').ended
    expect(err).toMatch(/^sluice: no connection to NATS at 127\.0\.0\.1:\d+: .*\n$/)
    expect(code).toBe(4)
  })

  describe('at servers that ask who it is', () => {
    const user = nkeys.createUser()
    const seed = Buffer.from(user.getSeed()).toString()
    const password = 'pass-of-the-relay'
    const config = `authorization { users: [
      { user: relay, password: "${password}" }
      { nkey: ${user.getPublicKey()} }
    ] }`

    /** Runs a relay with these variables until it has stored a report, or has failed. */
    async function run(variables: Record<string, string>, ...more: readonly string[]) {
      const world = await startWorld({ config })
      const engine = await world.engine()
      const { servers } = world.servers
      const env = { ...environmentOf(engine), ...variables }
      const args = ['relay', '--nats', servers.join(), ...feeds, '--create', ...more]
      const relay = startCommand(args, { env })
      const code = await Promise.race([relay.ended.then(ran => ran.code), said(relay, 'relaying')])
      if (code !== undefined) return relay.ended
      engine.publish(feed(1))
      const authenticator = nkeyAuthenticator(user.getSeed())
      const connection = await connect({ servers, authenticator })
      closers.push(() => connection.close())
      const { streams } = await jetstreamManager(connection)
      while ((await streams.info('SLUICE')).state.messages === 0) await pause(20)
      relay.child.kill('SIGTERM')
      return relay.ended
    }
    const said = ({ output }: ReturnType<typeof start>, text: string) =>
      until(() => output.out.includes(text)).then(() => undefined)

    test.each([
      ['NATS_USER and NATS_PASSWORD', { NATS_USER: 'relay', NATS_PASSWORD: password }],
      ['NATS_NKEY_SEED', { NATS_NKEY_SEED: seed, NATS_USER: '' }],
    ])('is the user of %s', async (_name, variables) => {
      expect(await run(variables as Record<string, string>)).toMatchObject({ code: 0, err: '' })
    })

    test('is the user of --env-file', async () => {
      const file = join(folder(), 'nats.env')
      writeFileSync(file, `NATS_USER=relay\nNATS_PASSWORD=${password}\n`, { mode: 0o600 })
      expect(await run({}, '--env-file', file)).toMatchObject({ code: 0, err: '' })
    })

    test.each([
      [{ NATS_USER: 'relay', NATS_PASSWORD: 'wrong-one' }, 4, /check NATS_USER and NATS_PASSWORD$/],
      [{ NATS_NKEY_SEED: 'fresh' }, 4, /check NATS_NKEY_SEED$/],
      [{}, 4, /check whether --creds, NATS_USER or NATS_NKEY_SEED must be given$/],
      [{ NATS_USER: 'relay' }, 2, /^sluice: NATS_USER and NATS_PASSWORD must both be set$/],
      [{ NATS_PASSWORD: 'wrong-one' }, 2, /^sluice: NATS_USER and NATS_PASSWORD must both be set$/],
      [{ NATS_NKEY_SEED: 'wrong-one' }, 2, /^sluice: NATS_NKEY_SEED must be the seed of a user/],
      [{ NATS_NKEY_SEED: 'account' }, 2, /^sluice: NATS_NKEY_SEED must be the seed of a user/],
      [
        { NATS_USER: 'relay', NATS_PASSWORD: 'wrong-one', NATS_NKEY_SEED: 'fresh' },
        2,
        /^sluice: NATS_USER and NATS_NKEY_SEED each name a user of NATS: give one of them$/,
      ],
    ] as const)('names the variables %j', async (given, expected, message) => {
      const made: Readonly<Record<string, () => { getSeed(): Uint8Array }>> = {
        fresh: nkeys.createUser,
        account: nkeys.createAccount,
      }
      const variables = Object.entries(given as Record<string, string>).map(([name, value]) => {
        const make = made[value]
        return [name, make === undefined ? value : Buffer.from(make().getSeed()).toString()]
      })
      const { code, err } = await run(Object.fromEntries(variables))
      expect(err.trim()).toMatch(message)
      expect(code).toBe(expected)
      expect(err).not.toMatch(/wrong-one|S[UA][A-Z2-7]{20}/)
    })
  })

  test('with a wrong key ends with 3, and says what may be wrong, with one connection or several', async () => {
    const world = await startWorld()
    const engine = await world.engine({ origins: 2 })
    const env = { ...environmentOf(engine), USER_SECRET: 'another' }
    const args = ['relay', '--nats', world.servers.servers.join(), '--feeds', feed(1), '--create']
    for (const more of [[], ['--no-ha']]) {
      const { code, err } = await startCommand([...args, ...more], { env }).ended
      expect(err).toMatch(/^sluice: the key, the secret or this machine’s clock may be wrong/m)
      expect(code).toBe(3)
    }
  })

  test('puts its name before the lines of its log, and counts one feed', async () => {
    const world = await startWorld()
    const engine = await world.engine({ feeds: [feed(1)] })
    const relay = start(world, engine, '--feeds', feed(1), '--no-ha', '--create', '--name', 'left')
    await until(() => relay.output.out.includes('relaying 1 feed;'))
    await world.servers.nodes[0].kill()
    await until(() => / error left: relay: log-away: /.test(relay.output.err))
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  }, 30_000)

  test('with --signers says what verifies the reports, and how many a second', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const signers = join(folder(), 'signers.json')
    writeFileSync(signers, JSON.stringify(engine.network))
    const relay = start(world, engine, ...feeds, '--create', '--signers', signers)
    await until(() => relay.output.out.includes('relaying'))
    for (let at = 0; at < 50; at++) engine.publish(feed(1))
    await until(() => relay.output.err !== '')
    relay.child.kill('SIGTERM')
    const { code, err } = await relay.ended
    expect(err).toMatch(
      /^sluice: verification: secp256k1 in \d threads?, about \d+ reports a second of f \d\n$/,
    )
    expect(code).toBe(0)
  })

  test('takes the feeds of a file', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    const file = join(folder(), 'feeds.txt')
    writeFileSync(file, `# the desk\n${feed(1)}, # the first\n\n${feed(2)}\r\n`)
    const relay = start(world, engine, '--feeds', `@${file}`, '--no-ha', '--create')
    await until(() => relay.output.out.includes('relaying 2 feeds'))
    relay.child.kill('SIGTERM')
    expect(await relay.ended).toMatchObject({ code: 0, err: '' })
    const wrong: readonly (readonly [string, RegExp])[] = [
      ['# none\n', /^sluice: --feeds: \S+ has no feed$/],
      [`${feed(1)}\n0x12`, /the feed must be 0x and 64 hexadecimal digits/],
      ['#'.repeat(1_048_577), /^sluice: --feeds: \S+ has more than 1048576 bytes$/],
    ]
    for (const [text, message] of wrong) {
      writeFileSync(file, text)
      const { code, err } = await start(world, engine, '--feeds', `@${file}`).ended
      expect(err.trim()).toMatch(message)
      expect(code).toBe(2)
    }
    const { code, err } = await start(world, engine, '--feeds', '@/nowhere').ended
    expect(code).toBe(2)
    expect(err).toMatch(
      /^sluice: --feeds can’t be read from \/nowhere: ENOENT, there is no such file/,
    )
  })

  test('takes all feeds that the service lists, once it can be asked', async () => {
    const world = await startWorld()
    const engine = await world.engine()
    await engine.stop()
    const relay = start(world, engine, '--feeds', 'all', '--no-ha', '--create')
    await until(() => relay.output.err !== '')
    await engine.start()
    await until(() => relay.output.out.includes(`relaying ${engine.feeds.length} feeds`))
    relay.child.kill('SIGTERM')
    expect((await relay.ended).code).toBe(0)
  })

  test('names the option that is wrong, in one line', async () => {
    const nats = ['--nats', 'nats://127.0.0.1:1']
    const some = [...nats, '--feeds', feed(1)]
    const serving = [...nats, '--gateway', '0', '--tokens', 't.json']
    const issuer = ['--jwt-issuer', 'https://login.example', '--jwt-audience', 'reports']
    const cases: readonly (readonly [readonly string[], string])[] = [
      [['--feeds', feed(1)], '--nats'],
      [nats, '--feeds'],
      [[...nats, '--feeds', '0x12'], 'the feed must be 0x'],
      [['--nats', 'nats://user:secret@127.0.0.1', '--feeds', feed(1)], '--nats'],
      [[...some, '--create', '--replicas', '9'], '--replicas'],
      [[...some, '--create', '--max-age', '0'], '--max-age'],
      [[...some, '--create', '--max-bytes', '1k'], '--max-bytes'],
      [[...some, '--max-age', '3h'], '--max-age'],
      [[...some, '--stream', 'a.b'], '--stream'],
      [[...some, '--prefix', 'a b'], '--prefix'],
      [[...some, '--name', 'a b'], '--name'],
      [[...some, '--creds', '/nowhere'], '--creds'],
      [[...some, '--nats-ca', '/nowhere'], '--nats-ca'],
      [[...some, '--nats-cert', '/nowhere'], '--nats-cert'],
      [[...some, '--tokens', 't.json'], '--tokens'],
      [[...nats, '--gateway', '0'], '--tokens'],
      [[...nats, '--gateway', '0', '--jwt-jwks', 'k.json'], '--jwt-jwks needs --jwt-issuer'],
      [[...nats, '--gateway', '0', '--jwt-issuer', 'a'], 'need --jwt-jwks or --jwt-key'],
      [[...serving, ...issuer, '--jwt-key', '/nowhere'], '--jwt-key'],
      [[...serving, ...issuer, '--jwt-key', 'a', '--jwt-jwks', 'b'], '--jwt-key'],
      [[...some, '--jwt-jwks', 'k.json', ...issuer], 'needs --gateway'],
      [[...nats, '--gateway', '70000', '--tokens', 't.json'], '--gateway'],
      [[...serving, '--create'], '--create'],
      [[...serving, '--signers', 'signers.json'], '--signers needs --feeds'],
      [[...serving, '--gateway-cert', '/nowhere'], '--gateway-cert'],
      [[...serving, '--max-connections', '0'], '--max-connections'],
      [[...serving, '--max-reports-per-token', 'many'], '--max-reports-per-token'],
      [[...some, '--nonsense'], '--nonsense'],
    ]
    const env = { API_KEY: 'key', USER_SECRET: 'secret' }
    const wrong: string[] = []
    for (const [args, option] of cases) {
      const { code, err } = await startCommand(['relay', ...args], { env }).ended
      const isOne = err.trim().split('\n').length === 1
      if (code !== 2 || !isOne || !err.includes(option) || err.includes('secret'))
        wrong.push(`${args.join(' ')}: ${code} ${err}`)
    }
    expect(wrong).toEqual([])
  }, 60_000)
})

interface Frame {
  readonly report: { readonly feedID: string; readonly observationsTimestamp: number }
}
