import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import {
  ConfidentialHTTPClient,
  createLocalRuntime,
  type NodeRuntime,
  type Runtime,
  text,
} from '../../index.js'
import { failing, inputOf, localRuntime, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

let world: World
let runtime: Runtime
const lines: string[] = []
beforeAll(async () => {
  world = await startWorld({ apiKey: 'the value', other: 'another' })
  runtime = localRuntime(world, {
    config: { city: 'Wien' },
    now: () => 1_700_000_000_000,
    logging: { logger: { info: line => lines.push(line) } },
    capabilities: {
      'price@1.0.0': ({ payload }) => ({ price: payload }),
      'broken@1.0.0': () => {
        throw new Error('theirs')
      },
    },
  })
})
afterAll(async () => {
  await runtime.close()
  await world.close()
})

const call = (capabilityId: string, payload: unknown = 1) => ({
  capabilityId,
  method: 'Ask',
  payload,
})
const aggregation = (value: number) => ({ descriptor: { case: 'aggregation', value } })
const identical = { descriptor: aggregation(2) }
const fields = (names: Record<string, unknown>) => ({
  descriptor: { case: 'fieldsMap', value: { fields: names } },
})

test('a workflow has its configuration, its time and its log', () => {
  expect(runtime.config).toEqual({ city: 'Wien' })
  expect(runtime.now().toISOString()).toBe('2023-11-14T22:13:20.000Z')
  runtime.log('a line')
  expect(lines).toContain('a line')
})

describe('secrets', () => {
  test('come from the vault, main being the namespace of those that name none', () => {
    const secret = { $typeName: 'sdk.v1alpha.Secret', namespace: 'main', owner: world.owner }
    const reply = runtime.getSecret({ id: 'apiKey' })
    expect(reply.result()).toEqual({ ...secret, id: 'apiKey', value: 'the value' })
    expect(reply.result()).toBe(reply.result())
    expect(
      runtime
        .getSecrets([
          { id: 'apiKey', namespace: '' },
          { id: 'other', namespace: 'main' },
        ])
        .result(),
    ).toEqual({
      apiKey: { ...secret, id: 'apiKey', value: 'the value' },
      other: { ...secret, id: 'other', value: 'another' },
    })
    expect(runtime.getSecrets([]).result()).toEqual({})
  })

  test('that are absent, or asked for twice, are errors of result()', () => {
    expect(failing(runtime.getSecret({ id: 'absent', namespace: 'n' }).result).error).toMatchObject(
      {
        name: 'VaultError',
        message: expect.stringMatching(
          /^secret retrieval failed for absent \(namespace: n\): key does not exist/,
        ),
      },
    )
    expect(
      failing(runtime.getSecrets([{ id: 'a' }, { id: 'a', namespace: 'n' }]).result).error.message,
    ).toMatch(
      /^batch secret retrieval failed for 2 request\(s\):\nduplicate secret id requested: a\n/,
    )
    expect(failing(runtime.getSecret({}).result).error.message).toMatch(/failed for unknown/)
  })

  test('stay where they are when the enclave is elsewhere', async () => {
    const remote = remoteRuntime(world)
    expect(failing(remote.getSecret({ id: 'apiKey' }).result).error).toMatchObject({
      code: 'CAPABILITY',
    })
    await remote.close()
  })
})

test('other capabilities are those it was given; one that it has not is named, by result()', async () => {
  const reply = runtime.callCapability<{ price: number }>(call('price@1.0.0', 7))
  expect(reply.result()).toEqual({ price: 7 })
  expect(await reply.resultAsync()).toBe(reply.result())
  expect(failing(runtime.callCapability(call('broken@1.0.0')).result).error.message).toBe('theirs')
  const missing = runtime.callCapability(call('toString'))
  expect(failing(missing.result).error).toMatchObject({
    code: 'CAPABILITY',
    message: expect.stringMatching(
      /^Capability 'toString' not found: the host rejected the call to method 'Ask'\./,
    ),
  })
})

describe('node mode', () => {
  test('gives back what one node saw, without the fields that are ignored', () => {
    const seen = {
      a: 1,
      b: { c: 'x', d: 2n },
      ignored: 3,
      at: new Date(5),
      bytes: new Uint8Array([1]),
    }
    const nested = fields({ c: aggregation(2) })
    const run = runtime.runInNodeMode(
      (_node: NodeRuntime<unknown>, more: number) => ({ ...seen, a: seen.a + more }),
      {
        descriptor: fields({
          a: aggregation(1),
          b: nested,
          at: aggregation(2),
          bytes: aggregation(2),
        }),
      },
    )
    expect(run(2).result()).toEqual({
      a: 3,
      b: { c: 'x' },
      at: new Date(5),
      bytes: new Uint8Array([1]),
    })
    class Point {
      x = 1
    }
    expect(
      runtime
        .runInNodeMode(() => new Point(), identical)()
        .result(),
    ).toEqual({ x: 1 })
  })

  test.each<[string, () => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('mine')
      },
      /^mine$/,
    ],
    ['returns nothing', () => undefined, /cannot wrap null\/undefined into Value/],
    ['returns a function', () => () => 1, /unsupported type: function/],
    ['returns a promise', async () => 1, /must not return a promise/],
  ])('a function that %s comes to an error, or to the default', (_what, fn, message) => {
    expect(failing(runtime.runInNodeMode(fn, identical)().result).error.message).toMatch(message)
    expect(
      runtime
        .runInNodeMode(fn, { ...identical, defaultValue: 'other' })()
        .result(),
    ).toBe('other')
  })

  test('no runtime is used where it does not belong', () => {
    let leaked: NodeRuntime<unknown> | undefined
    const inside = runtime.runInNodeMode(node => {
      leaked = node
      expect(node._isNodeRuntime).toBe(true)
      const refused = [
        runtime.callCapability(call('price@1.0.0')),
        runtime.getSecret({ id: 'apiKey' }),
        runtime.getSecrets([]),
        runtime.report({}),
        runtime.runInNodeMode(() => 1, identical)(),
      ].map(({ result }) => failing(result).error.message)
      expect(new Set(refused)).toEqual(new Set(['cannot use Runtime inside RunInNodeMode']))
      return node.callCapability<{ price: number }>(call('price@1.0.0', 7)).result().price
    }, identical)()
    expect(inside.result()).toBe(7)
    const { result } = (leaked as NodeRuntime<unknown>).callCapability(call('price@1.0.0'))
    expect(failing(result).error.message).toBe('cannot use NodeRuntime outside RunInNodeMode')
    expect(runtime.getSecret({ id: 'other' }).result().value).toBe('another')
  })

  test('unwraps to a type, and makes no frequency list of what one node saw', () => {
    const run = (options: unknown) => runtime.runInNodeMode(() => ({ a: 1 }), identical, options)()
    expect(run({ schema: { parse: (value: { a: number }) => value.a } }).result()).toBe(1)
    expect(run({ factory: () => ({ b: 2 }) }).result()).toEqual({ a: 1, b: 2 })
    expect(failing(run({ instance: 'text' }).result).error.message).toMatch(
      /Cannot unwrap to type string/,
    )
    expect(
      failing(runtime.runInNodeMode(() => [1], { descriptor: aggregation(5) })).error.message,
    ).toMatch(/no frequency lists/)
  })
})

test('a report is what the option makes of the request; without one it is an error of result()', async () => {
  expect(failing(runtime.report({}).result).error).toMatchObject({ code: 'CAPABILITY' })
  const made = createLocalRuntime({ vault: world.vault, report: request => ({ made: request }) })
  expect(made.report({ encodedPayload: 'AQI=', encoderName: 'evm' }).result()).toEqual({
    made: {
      encodedPayload: new Uint8Array([1, 2]),
      encoderName: 'evm',
      signingAlgo: '',
      hashingAlgo: '',
    },
  })
  await made.close()
})

test('a confidential request goes its way beside all that', () => {
  const sent = new ConfidentialHTTPClient().sendRequest(runtime, inputOf(world, '/'))
  expect(text(sent.result())).toMatch(/answer of the external server/)
})
