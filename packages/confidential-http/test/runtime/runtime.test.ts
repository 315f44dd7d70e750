import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { LogLevel } from 'sluice/plugins/logging'
import {
  type CapabilityCall,
  ConfidentialHTTPClient,
  httpRequest,
  type Runtime,
  type RuntimeOptions,
  text,
} from '../../index.js'
import { failing, inputOf, localRuntime, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const secret = 'a secret of some length'
const client = new ConfidentialHTTPClient()
let world: World
let runtime: Runtime
beforeAll(async () => {
  world = await startWorld({ apiKey: secret })
})
afterAll(() => world.close())
const input = (path: string, timeout?: string) => inputOf(world, path, timeout)
const call = (payload: unknown): CapabilityCall => ({
  capabilityId: 'confidential-http@1.0.0-alpha',
  method: 'SendRequest',
  payload,
})

describe.each<[string, (world: World, options?: RuntimeOptions) => Runtime]>([
  ['a local runtime', localRuntime],
  ['a remote runtime', remoteRuntime],
])('%s', (_name, createRuntime) => {
  const lines: string[] = []
  beforeAll(() => {
    const write =
      (level: string) =>
      (message: string, facts?: unknown): void =>
        void lines.push(`${level} ${message} ${JSON.stringify(facts) ?? ''}`)
    const logger = {
      debug: write('debug'),
      info: write('info'),
      warn: write('warn'),
      error: write('error'),
    }
    runtime = createRuntime(world, { logging: { logger, logLevel: LogLevel.DEBUG } })
  })

  test('ends a request when its signal does, and goes on with the others', async () => {
    const reason = new Error('no longer')
    expect(
      await failureOf(
        client.sendRequestAsync(runtime, input('/'), { signal: AbortSignal.abort(reason) }),
      ),
    ).toBe(reason)

    world.hits.length = 0
    const controller = new AbortController()
    const held = client.sendRequestAsync(runtime, input('/hang'), { signal: controller.signal })
    const reply = runtime.callCapability({ ...call(input('/hang')), signal: controller.signal })
    const other = client.sendRequestAsync(runtime, input('/hold'), {
      signal: new AbortController().signal,
    })
    await until(() => world.hits.length === 3)
    controller.abort(reason)
    expect(await failureOf(held)).toBe(reason)
    expect(failing(reply.result).error).toBe(reason)
    expect(await failureOf(reply.resultAsync())).toBe(reason)
    // The enclave gives up the connection: nobody waits for its answer.
    while ((await world.connections()) !== 1);
    world.release()
    expect((await other).statusCode).toBe(200)

    const late = new AbortController()
    const response = await client.sendRequestAsync(runtime, input('/'), { signal: late.signal })
    late.abort()
    expect(response.statusCode).toBe(200)
  })

  test('hosts a client of another make, which gives it protobuf messages', () => {
    const { url, ca } = world
    const name = 'capabilities.networking.confidentialhttp.v1alpha'
    const payload = {
      $typeName: `${name}.ConfidentialHTTPRequest`,
      vaultDonSecrets: [{ $typeName: `${name}.SecretIdentifier`, key: 'apiKey', namespace: '' }],
      request: {
        $typeName: `${name}.HTTPRequest`,
        url: `${url}/message`,
        method: 'PUT',
        body: { case: 'bodyBytes', value: Buffer.from([1, 2, 3, 195, 188]) },
        multiHeaders: {
          'X-Key': { $typeName: `${name}.HeaderValues`, values: ['{{.apiKey}}', 'b'] },
        },
        templatePublicValues: {},
        customRootCaCertPem: new TextEncoder().encode(ca),
        timeout: { $typeName: 'google.protobuf.Duration', seconds: 9n, nanos: 500 },
        encryptOutput: false,
      },
    }
    // Other makes have schemas with functions in them, which no thread can be handed.
    const schema = { kind: 'message', typeName: 'x', create: () => ({}) }
    const reply = runtime.callCapability({
      ...call(payload),
      inputSchema: schema,
      outputSchema: schema,
    })
    expect(reply.result()).toMatchObject({
      $typeName: `${name}.HTTPResponse`,
      statusCode: 200,
      body: expect.any(Uint8Array),
      multiHeaders: { 'X-Answered': { $typeName: `${name}.HeaderValues`, values: ['yes'] } },
    })
    return until(() =>
      world.hits.some(hit => hit.path === '/message' && hit.headers['x-key'] === `${secret}, b`),
    )
  })

  test('refuses another capability, and what is no request', () => {
    for (const other of [{ capabilityId: 'http-actions@1.0.0' }, { method: 'Other' }])
      expect(failing(runtime.callCapability({ ...call({}), ...other }).result).error).toMatchObject(
        {
          code: 'CAPABILITY',
        },
      )
    expect(
      failing(() => runtime.callCapability(call({ request: { url: 5 } }))).error,
    ).toMatchObject({
      code: 'VALIDATION',
    })
    expect(failing(() => runtime.callCapability(undefined as never)).error).toMatchObject({
      code: 'VALIDATION',
    })
  })

  test('logs what was asked and answered, failures with their code, and no secret', async () => {
    lines.length = 0
    const { host } = new URL(world.url)
    await client.sendRequestAsync(runtime, input('/path?query'))
    await failureOf(client.sendRequestAsync(runtime, input('/', '99s')))
    await failureOf(client.sendRequestAsync(runtime, input('/throw')))
    const logged = lines.join('\n')
    expect(logged).toMatch(
      new RegExp(
        `^info POST ${host}: 200 in \\d+ ms \\{"method":"POST","host":"${host}","status":200,"ms":\\d+\\}$`,
        'm',
      ),
    )
    expect(logged).toMatch(
      new RegExp(
        `^warn POST ${host} failed in \\d+ ms: timeout must be at most .*"code":"LIMIT"`,
        'm',
      ),
    )
    expect(logged).not.toMatch(/path|query|Bearer/)
    expect(logged).not.toContain(secret)
  })

  test('rejects what is under way when it is closed, and takes nothing from then on', async () => {
    await runtime.close()
    runtime = createRuntime(world)
    const pending = client.sendRequestAsync(runtime, input('/hang'))
    const sent = client.sendRequest(runtime, input('/hang'))
    const [one, other] = [runtime.close(), runtime.close()]
    const closed = { name: 'DataStreamsError', code: 'CLOSED', message: 'the runtime was closed' }
    expect(await failureOf(pending)).toMatchObject(closed)
    expect(failing(sent.result).error).toMatchObject(closed)
    await Promise.all([one, other])
    await runtime.close()
    expect(failing(() => client.sendRequest(runtime, input('/'))).error).toMatchObject(closed)
    expect(await failureOf(client.sendRequestAsync(runtime, input('/')))).toMatchObject(closed)
  })

  test('is closed at the end of an await using', async () => {
    {
      await using scoped = createRuntime(world)
      runtime = scoped
    }
    expect(failing(() => client.sendRequest(runtime, input('/'))).error).toMatchObject({
      code: 'CLOSED',
    })
  })
})

test('the same requests go through a runtime that blocks and one that does not', async () => {
  const request = httpRequest({ url: 'https://api.example/', method: 'GET' })
  const response = { statusCode: 200, body: new TextEncoder().encode('theirs'), multiHeaders: {} }
  const blocking = { callCapability: () => ({ result: () => response }) }
  const waiting = { callCapability: () => ({ result: () => Promise.resolve(response) }) }
  expect(text(client.sendRequest(blocking, { request }).result())).toBe('theirs')
  expect(text(await client.sendRequestAsync(blocking, { request }))).toBe('theirs')
  expect(text(await client.sendRequestAsync(waiting, { request }))).toBe('theirs')
})

test.each(['NODE_OPTIONS', 'NODE_DEBUG', 'NODE_DEBUG_NATIVE', 'node_options'])(
  'env must not set %s, which could show secrets',
  name => {
    expect(() => localRuntime(world, { env: { [name]: '--inspect' } })).toThrow(
      `env.${name} must not be set: it would let others see secrets`,
    )
  },
)
