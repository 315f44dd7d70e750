import { describe, expect, test } from '@jest/globals'
import { type Call, composeReport, type Handler, type Report } from '../../client/index.js'
import { composeCall } from '../../core/compose.js'
import type { ClientScope } from '../../core/scope.js'
import { createClient, decoders, defaultPreset, type Plugin, v3 } from '../../index.js'

const config = { endpoint: 'https://api.example', wsEndpoint: 'wss://ws.example' }

describe('the order of a stack', () => {
  const letters = (name: string, trace: string[]): Plugin => ({
    name,
    call: next => async call => {
      trace.push(`${name}↓`)
      const reply = await next(call)
      trace.push(`${name}↑`)
      return reply
    },
    attempt: next => call => {
      trace.push(name.toUpperCase())
      return next(call)
    },
    report: next => report => {
      trace.push(`${name}·`)
      next(report)
    },
  })

  test('the first plugin is nearest you, for calls and for reports', async () => {
    const trace: string[] = []
    const stack = [letters('a', trace), letters('b', trace)]
    const wire: Handler = async () => {
      trace.push('wire')
      return { kind: 'request', status: 200, headers: new Headers(), body: new Uint8Array() }
    }
    const rules = { isReply: () => true, copy: (call: Call) => call }
    await composeCall(stack, wire, rules)({ kind: 'request', headers: new Headers() } as never)
    composeReport(stack, () => trace.push('you'), {} as never)({} as Report)
    expect(trace.join(' ')).toBe('a↓ b↓ A B wire b↑ a↑ b· a· you')
  })

  test('every attempt starts from the headers of the call, wherever retry stands', async () => {
    const seen: (string | null)[] = []
    const twice: Plugin = {
      name: 'twice',
      call: next => async call => {
        await next(call)
        return next(call)
      },
    }
    const mark: Plugin = {
      name: 'mark',
      attempt: next => call => {
        call.headers.append('x-mark', String(seen.length))
        return next(call)
      },
    }
    const fetch: typeof globalThis.fetch = async (_url, init) => {
      seen.push(new Headers(init?.headers).get('x-mark'))
      return new Response('{"feeds":[]}')
    }
    for (const plugins of [
      [twice, mark],
      [mark, twice],
    ])
      await createClient({ ...config, plugins, fetch }).listFeeds()
    expect(seen).toEqual(['0', '1', '2', '3'])
  })

  test('a hook that makes no function is an error that names plugin and hook', () => {
    const bad: Plugin = { name: 'bad', call: () => undefined as never }
    expect(() => createClient({ ...config, plugins: [bad] })).toThrow(
      /plugin bad: call must return a function/,
    )
  })
})

describe('client.stack', () => {
  test('is the default preset as data and as a picture', () => {
    const client = createClient({ ...config, apiKey: 'key', userSecret: 'secret' })
    expect(client.stack.map(plugin => plugin.name)).toEqual([
      'logging',
      'decoders',
      'continuity',
      'dedup',
      'retirement',
      'retry',
      'feed-access',
      'rate-limit',
      'hmac-auth',
    ])
    expect(String(client.stack)).toBe(
      [
        'you',
        ' │ ↓ call        ↑ report',
        ' ├ logging       attempt · report',
        ' ├ decoders      V2 … V14',
        ' ├ continuity    report',
        ' ├ dedup         report',
        ' ├ retirement    report · retiring',
        ' ├ retry         call',
        ' ├ feed-access   attempt',
        ' ├ rate-limit    attempt',
        ' ├ hmac-auth     attempt',
        'wire             https://api.example · wss://ws.example',
      ].join('\n'),
    )
    expect(Object.isFrozen(client.stack)).toBe(true)
  })

  const signers = ['11', '22', '33', '44'].map(byte => `0x${byte.repeat(20)}`)
  test.each([{}, { verify: { signers: { signers, f: 1 } } }])(
    'has one plugin more with haMode, above retry: %j',
    more => {
      const keys = { ...config, apiKey: 'key', userSecret: 'secret', ...more }
      const single = createClient(keys).stack.map(({ name }) => name)
      single.splice(single.indexOf('retry'), 0, 'ha-discovery')
      expect(createClient({ ...keys, haMode: true }).stack.map(({ name }) => name)).toEqual(single)
    },
  )

  test('is changed by ordinary array work', () => {
    const preset = defaultPreset({ apiKey: 'key', userSecret: 'secret' })
    const mine: Plugin = { name: 'mine', report: next => next }
    const client = createClient({
      ...config,
      plugins: [mine, ...preset.filter(({ name }) => name !== 'retry')],
    })
    expect(client.stack.map(({ name }) => name)).toEqual([
      'mine',
      'logging',
      'decoders',
      'continuity',
      'dedup',
      'retirement',
      'feed-access',
      'rate-limit',
      'hmac-auth',
    ])
  })
})

describe('a list that is no stack', () => {
  test.each([
    [
      'a name that stands twice',
      [decoders(v3), decoders(v3)],
      /plugins\[1\] and plugins\[0\] are both named "decoders"/,
    ],
    [
      'a factory that was not called',
      [decoders],
      /plugins\[0\] must be a plugin.*was the factory not called/,
    ],
    ['a plugin without a name', [{}], /plugins\[0\]\.name/],
    [
      'a hook that is no function',
      [{ name: 'x', report: 3 }],
      /plugins\[0\] \(x\): report must be a function/,
    ],
    [
      'a misspelt hook',
      [{ name: 'x', atempt: () => undefined }],
      "unknown hook 'atempt' of plugins[0] (x); did you mean 'attempt'?",
    ],
    [
      'a hook that there is not',
      [{ name: 'x', onMessage: () => undefined }],
      "unknown hook 'onMessage' of plugins[0] (x); there is name, setup, call, attempt, report, acknowledged, unacknowledged, decoders, events",
    ],
    ['events that are no list', [{ name: 'x', events: 'a' }], /events must be an array of names/],
    [
      'a place that is no list',
      [{ name: 'x', setup: (scope: ClientScope) => scope.place({ below: 'unique' as never }) }],
      /plugin x: place.below must be an array of capabilities/,
    ],
    [
      'a place with a wrong word',
      [{ name: 'x', setup: (scope: ClientScope) => scope.place({ bellow: [] } as never) }],
      /unknown option 'bellow'/,
    ],
    ['an event without a name', [{ name: 'x', events: [''] }], /events must be an array of names/],
    ['decoders that are no list', [{ name: 'x', decoders: v3 }], /decoders must be an array/],
    ['a decoder that is none', [{ name: 'x', decoders: [{}] }], /a decoder must have a version/],
    ['null', [null], /plugins\[0\] must be a plugin/],
    ['no list', {}, /plugins must be an array/],
  ])('%s is refused', (_name, plugins, message) => {
    expect(() => createClient({ ...config, plugins: plugins as never })).toThrow(message)
  })
})

test('a plugin may be an instance of a class, whose methods and private fields are its own', () => {
  class Counter implements Plugin {
    readonly name = 'counter'
    readonly events = ['counted']
    #count = 0
    get count() {
      return this.#count
    }
    reset() {
      this.#count = 0
    }
  }
  const client = createClient({ ...config, plugins: [new Counter()] })
  expect(client.stack[0]).toMatchObject({ name: 'counter', hooks: [], brings: ['counted'] })
})

test('two clients that share one list of plugins share no state', async () => {
  const answers = [503, 200, 503, 503, 200]
  const seen: number[] = []
  const fetch = async (): Promise<Response> => {
    const status = answers[seen.length] ?? 200
    seen.push(status)
    return new Response('{"feeds":[]}', { status })
  }
  const plugins = defaultPreset({
    apiKey: 'key',
    userSecret: 'secret',
    retryAttempts: 2,
    retryDelay: 0,
  })
  const clients = [
    createClient({ ...config, fetch, plugins }),
    createClient({ ...config, fetch, plugins }),
  ]
  for (const client of clients) expect(await client.listFeeds()).toEqual([])
  expect(seen).toEqual(answers)
  await clients[0]?.close()
  expect(await clients[1]?.listFeeds()).toEqual([])
})

test('what a plugin has started ends if a plugin after it is not set up', () => {
  let ended = 0
  const plugins: Plugin[] = [
    { name: 'first', setup: scope => scope.defer(() => void ended++) },
    {
      name: 'second',
      setup() {
        throw new Error('no')
      },
    },
  ]
  expect(() => createClient({ ...config, plugins })).toThrow('no')
  expect(ended).toBe(1)
})
