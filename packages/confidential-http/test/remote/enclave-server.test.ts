import { chmodSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { boxKeys, networkOf, parseKey } from 'sluice/internal'
import {
  ConfidentialHTTPClient,
  createKeys,
  type RemoteRuntimeOptions,
  type Runtime,
  startEnclaveServer,
} from '../../index.js'
import { sealRequest } from '../../remote/protocol.js'
import { toJSON } from '../../sealed-message.js'
import { fetchBootKey, open, type Posted, postTo, seal } from '../support/raw-caller.js'
import { inputOf, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const secret = 'never-seen-on-the-way-4711'
const theirs = 'of-another-owner-4712'
const client = new ConfidentialHTTPClient()
let world: World
/** The runtime of a caller as it is by default. */
let ours: Runtime
const runtimes: Runtime[] = []
const relays: Relay[] = []
const held: Socket[] = []
beforeAll(async () => {
  world = await startWorld({ apiKey: secret }, { apiKey: theirs, onlyTheirs: theirs })
  bootKey = await fetchBootKey(world.enclaveURL, world.enclavePublicKey)
  ours = remoteRuntime(world)
})
afterEach(async () => {
  await Promise.all(runtimes.splice(0).map(each => each.close()))
  for (const relay of relays.splice(0)) relay.close()
  for (const socket of held.splice(0)) socket.destroy()
})
afterAll(async () => {
  await ours.close()
  await world.close()
})

function runtimeTo(options: Partial<RemoteRuntimeOptions>): Runtime {
  const runtime = remoteRuntime(world, options)
  runtimes.push(runtime)
  return runtime
}

interface Relay {
  readonly url: string
  /** What the caller sent, and what the enclave answered, one after the other. */
  readonly asked: Buffer[]
  readonly answered: Buffer[]
  close(): void
}

/** Stands between caller and enclave; `change` may change what passes. */
async function startRelay(
  change = (bytes: Buffer, _isAnswer: boolean): Buffer => bytes,
): Promise<Relay> {
  const asked: Buffer[] = []
  const answered: Buffer[] = []
  const sockets = new Set<Socket>()
  const server: Server = createServer(socket => {
    const other = connect(Number(new URL(world.enclaveURL).port), '127.0.0.1')
    for (const each of [socket, other]) {
      sockets.add(each)
      each.on('error', () => undefined)
    }
    socket.on('data', bytes => {
      asked.push(bytes)
      other.write(change(bytes, false))
    })
    other.on('data', bytes => {
      answered.push(bytes)
      socket.write(change(bytes, true))
    })
    socket.on('close', () => other.destroy())
    other.on('close', () => socket.end())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const relay = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    answered,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
  relays.push(relay)
  return relay
}

/** Posts what is no client of ours. */
function post(body: Uint8Array | string, path?: string, method?: string): Promise<Posted> {
  return postTo(world.enclaveURL, body, path, method)
}

let bootKey: Uint8Array
/** A request as a caller of ours would seal it, but for what is given. */
function sealed(fields: Record<string, unknown> = {}, path = '/sealed'): Uint8Array {
  return seal(world, { bootKey, fields, path })
}

test('an error names no path and no mode of the operator, whose log does', async () => {
  const folder = join(world.vault, 'manifests')
  const ask = () => client.sendRequestAsync(ours, inputOf(world, '/unsafe'))
  chmodSync(folder, 0o777)
  const error = await failureOf(ask()).finally(() => chmodSync(folder, 0o700))
  expect(error).toMatchObject({
    ...{ code: 'PERMISSIONS', mayHaveBeenSent: false },
    message: 'others may read or change files that are only for their owner',
  })
  expect((await world.lines()).join('\n')).toContain(`${folder} has the mode 0777`)
  expect((await ask()).statusCode).toBe(200)
})

const hitsOf = (path: string) => world.hits.filter(hit => hit.path === path)

describe('on the way', () => {
  test('nothing of a request or its answer can be read', async () => {
    const relay = await startRelay()
    const input = inputOf(world, '/path-of-the-request')
    expect((await client.sendRequestAsync(runtimeTo({ url: relay.url }), input)).statusCode).toBe(
      200,
    )
    expect(hitsOf('/path-of-the-request')[0]?.headers.authorization).toBe(`Bearer ${secret}`)
    const passed = Buffer.concat([...relay.asked, ...relay.answered]).toString('latin1')
    expect(passed).toMatch(
      /^POST \/v2\/boot-key HTTP[\s\S]*POST \/v2\/requests HTTP[\s\S]*HTTP\/1\.1 200 OK/,
    )
    for (const word of [
      'path-of-the-request',
      'localhost',
      'apiKey',
      'Authorization: Bearer',
      'Bearer',
      'CERTIFICATE',
      'answer of the external',
      'X-Answered',
      'statusCode',
      secret,
      world.owner,
    ])
      expect(passed).not.toContain(word)
  })

  test('what was recorded is refused when it is sent again, and not carried out', async () => {
    const relay = await startRelay()
    await client.sendRequestAsync(runtimeTo({ url: relay.url }), inputOf(world, '/recorded'))
    const recorded = Buffer.concat(relay.asked)
    const body = recorded.subarray(
      recorded.indexOf('\r\n\r\n', recorded.indexOf('POST /v2/requests')) + 4,
    )
    for (let attempt = 0; attempt < 3; attempt++)
      expect(await post(body)).toMatchObject({ status: 409 })
    expect((await Promise.all([post(body), post(body)])).map(({ status }) => status)).toEqual([
      409, 409,
    ])
    // The world hears of a request before the answer to a later one comes.
    await client.sendRequestAsync(ours, inputOf(world, '/later'))
    await until(() => hitsOf('/later').length > 0)
    expect(hitsOf('/recorded')).toHaveLength(1)
  })

  test('of two at once with the same bytes one is carried out', async () => {
    const body = sealed({}, '/twice')
    const answers = await Promise.all([post(body), post(body), post(body)])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409, 409])
    expect(hitsOf('/twice')).toHaveLength(1)
    for (const { status, body: answer } of answers)
      if (status === 409)
        expect(open(answer, bootKey).failure).toEqual({
          code: 'ENCLAVE',
          message: 'the request was seen before; the request may have been carried out',
          mayHaveBeenSent: true,
        })
  })

  test('a byte that was changed anywhere in a request makes it no request', async () => {
    const body = sealed()
    const places = [32, 63, 64, 65, 92, 112, 132, 152, body.length >> 1, body.length - 1]
    for (const at of places) {
      const changed = Uint8Array.from(body, (byte, index) => (index === at ? byte ^ 1 : byte))
      expect(await post(changed)).toMatchObject({ status: 400 })
    }
    const other = Uint8Array.from(body, (byte, index) => (index === 0 ? byte ^ 1 : byte))
    expect(await post(other)).toMatchObject({ status: 410 })
    expect(await post(body.subarray(0, -1))).toMatchObject({ status: 400 })
    expect(await post(body)).toMatchObject({ status: 200 })
  })

  test('an answer that was changed, or is that of another request, is not taken', async () => {
    let mode: 'record' | 'change' | 'swap' = 'record'
    const bodies: Buffer[] = []
    const relay = await startRelay((bytes, isAnswer) => {
      if (!isAnswer) return bytes
      // The head of an answer may come alone, or with its body.
      const at = bytes.indexOf('HTTP/1.1') === 0 ? bytes.indexOf('\r\n\r\n') + 4 : 0
      const body = bytes.subarray(at)
      // The boot key comes first, and is short.
      if (body.length < 200) return bytes
      bodies.push(Buffer.from(body))
      if (mode === 'change') body[9] = (body[9] as number) ^ 1
      if (mode === 'swap') bodies[0]?.copy(body)
      return bytes
    })
    const runtime = runtimeTo({ url: relay.url })
    const send = () => client.sendRequestAsync(runtime, inputOf(world, '/'))
    expect((await send()).statusCode).toBe(200)
    mode = 'change'
    expect((await failureOf(send())).message).toMatch(/is not of the enclave with the pinned key;/)
    mode = 'swap'
    expect((await failureOf(send())).message).toMatch(/is not of the enclave with the pinned key;/)
    expect(bodies.map(({ length }) => length)).toEqual(Array(3).fill(bodies[0]?.length))
    mode = 'record'
    expect((await send()).statusCode).toBe(200)
  })
})

describe('who may ask', () => {
  test('an enclave with another key than the pinned one is sent nothing', async () => {
    const other = createKeys()
    const failure = await failureOf(
      client.sendRequestAsync(
        runtimeTo({ enclavePublicKey: other.publicKey }),
        inputOf(world, '/other'),
      ),
    )
    expect(failure).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE', mayHaveBeenSent: false })
    expect(failure.message).toMatch(/is not of the enclave with the pinned key$/)
    expect(hitsOf('/other')).toEqual([])
  })

  test('a request that is meant for another enclave, which passes on the boot key of this one, is refused', async () => {
    const other = createKeys()
    const body = sealed({ enclave: other.publicKey }, '/passed-on')
    expect(await post(body)).toMatchObject({
      status: 400,
      text: 'the request is for another enclave\n',
    })
    expect(hitsOf('/passed-on')).toEqual([])
  })

  test('a caller that is not known is refused', async () => {
    const { secretKey } = createKeys()
    const failure = await failureOf(
      client.sendRequestAsync(
        runtimeTo({ callerSecretKey: secretKey }),
        inputOf(world, '/unknown'),
      ),
    )
    expect(failure).toMatchObject({
      message: 'the enclave does not know this caller',
      mayHaveBeenSent: false,
    })
    expect(hitsOf('/unknown')).toEqual([])
  })

  test('a secret key is refused where the public one belongs, and not shown', async () => {
    // Half of all keys would have the bit that tells them by chance.
    for (let attempt = 0; attempt < 10; attempt++) {
      const { publicKey, secretKey } = createKeys()
      expect(createKeys(secretKey).publicKey).toBe(publicKey)
      const refusal = 'must be a public key, which sluice keygen prints: a secret one was given'
      const callers = { [secretKey]: '5a'.repeat(20) }
      expect(
        await failureOf(startEnclaveServer({ vault: 'none', secretKey, callers })),
      ).toMatchObject({ code: 'VALIDATION', message: `callers: each key ${refusal}` })
      expect(() => runtimeTo({ enclavePublicKey: secretKey })).toThrow(
        `enclavePublicKey ${refusal}`,
      )
    }
  })

  test('a caller who names another in place of itself is not believed', async () => {
    const stranger = boxKeys()
    const known = boxKeys(parseKey('key', world.callerSecretKey))
    const body = sealRequest(toJSON({}), bootKey, {
      publicKey: known.publicKey,
      secretKey: stranger.secretKey,
    })
    expect(await post(body)).toMatchObject({ status: 400 })
  })

  test('each caller has the secrets of its own owner, and no others', async () => {
    const runtime = runtimeTo({ callerSecretKey: world.otherCallerSecretKey })
    await client.sendRequestAsync(runtime, inputOf(world, '/theirs'))
    await until(() => hitsOf('/theirs').length > 0)
    expect(hitsOf('/theirs')[0]?.headers.authorization).toBe(`Bearer ${theirs}`)

    for (const [secrets, message] of [
      [[{ key: 'onlyTheirs' }], /key does not exist/],
      [[{ key: 'apiKey', owner: world.otherOwner }], /whom this request is made for$/],
      [
        [{ key: 'onlyTheirs', owner: `0x${world.otherOwner.toUpperCase()}` }],
        /whom this request is made for$/,
      ],
    ] as const) {
      const failure = await failureOf(
        client.sendRequestAsync(ours, { ...inputOf(world, '/not-ours'), vaultDonSecrets: secrets }),
      )
      expect(failure).toMatchObject({
        name: 'VaultError',
        code: 'VAULT',
        message: expect.stringMatching(message),
      })
    }
    expect(hitsOf('/not-ours')).toEqual([])
  })
})

describe('what is asked', () => {
  test.each([
    ['is old', () => ({ issuedAt: Date.now() - 31_000 }), 409],
    ['is of the future', () => ({ issuedAt: Date.now() + 50_000 }), 409],
    ['has a time that is none', () => ({ issuedAt: 'now' }), 400],
    ['has no id', () => ({ id: undefined }), 400],
    ['has an id of another form', () => ({ id: 'A'.repeat(32) }), 400],
    ['has no key to reply to', () => ({ replyTo: 'ab' }), 400],
    ['has a key to reply to of low order', () => ({ replyTo: '00'.repeat(32) }), 400],
    ['is of another version', () => ({ version: 1 }), 400],
  ])('is refused where it %s', async (_name, fields, status) => {
    expect(await post(sealed(fields()))).toMatchObject({ status })
  })

  test.each([
    ['no JSON', '{"version":2'],
    ['null', 'null'],
    ['a number', '5'],
    ['a list', '[]'],
    ['nothing', ''],
    ['deep', '['.repeat(100_000)],
  ])('is refused where what was sealed is %s', async (_name, text) => {
    const caller = boxKeys(parseKey('key', world.callerSecretKey))
    const body = sealRequest(text, bootKey, caller)
    expect(await post(body)).toMatchObject({ status: 400 })
  })

  test.each([
    [undefined],
    [null],
    [5],
    ['x'],
    [{}],
    [{ request: {} }],
    [{ request: { url: 'https://a', method: 'GET' }, more: 1 }],
    [{ __proto__: null, vaultDonSecrets: 'x' }],
  ])('is answered with a failure, sealed, where the request is %j', async request => {
    const { status, text } = await post(sealed({ request }))
    expect(status).toBe(200)
    expect(text).not.toContain('VALIDATION')
  })

  test.each([
    ['GET', '/v2/requests', 404],
    ['PUT', '/v2/requests', 404],
    ['POST', '/', 404],
    ['POST', '/v1/requests', 426],
    ['GET', '/v2/boot-key', 404],
    ['POST', '/v2/boot-key', 400],
    ['POST', '/v2/requests/', 404],
    ['POST', '/v2/requests?x', 404],
    ['POST', '/v2/requests', 410],
  ])('is refused where it comes by %s %s', async (method, path, status) => {
    expect(await post('x', path, method)).toMatchObject({ status })
  })

  test('is refused where it is too long, and a caller of ours does not even send it', async () => {
    expect(await post(new Uint8Array(4_194_305))).toMatchObject({ status: 413 })
    expect(await post(new Uint8Array(8_000_000))).toMatchObject({ status: 413 })
    const failure = await failureOf(
      client.sendRequestAsync(
        ours,
        inputOf(world, '/', '90s', { bodyString: 'x'.repeat(4_194_304) }),
      ),
    )
    expect(failure).toMatchObject({ code: 'LIMIT' })
  })

  test('is answered whoever holds connections open meanwhile', async () => {
    const port = Number(new URL(world.enclaveURL).port)
    const slow = Array.from({ length: 300 }, () => {
      const socket = connect(port, '127.0.0.1')
      socket.on('error', () => undefined)
      socket.write('POST /v2/requests HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nslow')
      return socket
    })
    expect(await post(sealed())).toMatchObject({ status: 200 })
    for (const socket of slow) socket.destroy()
  })
})

test('the enclave logs what it refused, what failed and what it did, without a secret', async () => {
  await client.sendRequestAsync(ours, inputOf(world, '/logged'))
  await failureOf(client.sendRequestAsync(ours, inputOf(world, '/throw')))
  await failureOf(client.sendRequestAsync(ours, inputOf(world, '/', '99s')))
  await post('x')
  const lines = (await world.lines()).join('\n')
  expect(lines).toMatch(/^debug secrets released: apiKey $/m)
  expect(lines).toMatch(/^info POST [\w.:]+: 200 in \d+ ms \{/m)
  expect(lines).toMatch(/^warn .*timeout must be at most 90000 ms.*"LIMIT"/m)
  expect(lines).toMatch(
    /^warn rejected with 410: the request is not sealed to the boot key of this enclave \{"status":410\}$/m,
  )
  expect(lines).not.toContain(secret)
  expect(lines).not.toContain(theirs)
})

interface Held {
  readonly socket: Socket
  readonly closed: Promise<unknown>
}

function hold(localAddress: string): Held {
  const port = Number(new URL(world.enclaveURL).port)
  const socket = connect({ port, host: '127.0.0.1', localAddress })
  socket.on('error', () => undefined)
  // Without it the end is not noticed.
  socket.resume()
  return { socket, closed: new Promise(resolve => socket.on('close', resolve)) }
}

async function holdMany(count: number, addresses: readonly string[]): Promise<void> {
  let connected = 0
  for (let index = 0; index < count; index++) {
    const { socket } = hold(addresses[index % addresses.length] as string)
    held.push(socket)
    socket.on('connect', () => connected++)
  }
  await until(() => connected === count)
}

async function isServed(runtime: Runtime): Promise<void> {
  const response = await client.sendRequestAsync(runtime, inputOf(world, '/'))
  expect(response.statusCode).toBe(200)
}

const others = Array.from({ length: 20 }, (_, index) => `127.0.0.${index + 2}`)

describe('a caller is served', () => {
  const addresses = ['127.0.0.1', ...others]

  test('while 1,100 idle connections are held from its own address and twenty others, and on the connection that has brought its requests', async () => {
    const running = client.sendRequestAsync(ours, inputOf(world, '/hold'))
    await until(() => world.hits.some(({ path }) => path === '/hold'))
    await holdMany(1100, addresses)
    // It has no connection yet.
    const runtime = runtimeTo({})
    await isServed(runtime)
    await holdMany(200, addresses)
    await isServed(runtime)
    world.release()
    expect((await running).statusCode).toBe(200)
  })
})

describe('a connection is closed', () => {
  test('where its address has more than 256: the oldest that brought nothing', async () => {
    const first = hold('127.0.0.5')
    held.push(first.socket)
    await holdMany(255, ['127.0.0.5'])
    expect(first.socket.destroyed).toBe(false)
    await holdMany(1, ['127.0.0.5'])
    await first.closed
    expect(held.filter(socket => !socket.destroyed)).toHaveLength(256)
  })
})

test.each([
  ['192.0.2.1', '192.0.2.1'],
  ['::ffff:192.0.2.1', '192.0.2.1'],
  ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2'],
  ['2001:db8:1:2::6', '2001:db8:1:2'],
  ['2001:db8::6', '2001:db8:0:0'],
  ['fe80::1%eth0', 'fe80:0:0:0'],
  ['::1', '0:0:0:0'],
  ['::', '0:0:0:0'],
  [undefined, ''],
])('the network of %s is %s', (address, network) => {
  expect(networkOf(address)).toBe(network)
})
