import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from '@jest/globals'
import { createCertificateAuthority } from '@sluice/engine'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import {
  candidatesOf,
  lookUp,
  parseHosts,
  parseSearch,
  readChanging,
} from '../../enclave/resolver.js'
import { ask, closing, reply, textOf } from '../support/enclave.js'
import {
  type NameServer,
  NXDOMAIN,
  REFUSED,
  SERVFAIL,
  startNameServer,
} from '../support/name-server.js'
import { startRawServer } from '../support/raw-server.js'

const opened: NameServer[] = []
afterEach(() => {
  for (const each of opened.splice(0)) each.close()
})

async function serve(answer: Parameters<typeof startNameServer>[0]): Promise<NameServer> {
  const server = await startNameServer(answer)
  opened.push(server)
  return server
}

const never = new AbortController().signal

async function addressesOf(host: string): Promise<readonly string[]> {
  return (await lookUp({ host, caller: 'a', signal: never })).map(({ address }) => address)
}

const codeOf = async (host: string): Promise<unknown> =>
  ((await failureOf(addressesOf(host))) as { code?: unknown }).code

describe('a look-up', () => {
  test('has the addresses of both families, those of IPv4 first', async () => {
    await serve(() => ['2001:db8::7', '192.0.2.1', '192.0.2.2'])
    expect(await lookUp({ host: 'both.test', caller: 'a', signal: never })).toEqual([
      { address: '192.0.2.1', family: 4 },
      { address: '192.0.2.2', family: 4 },
      { address: '2001:db8::7', family: 6 },
    ])
  })

  test.each([
    ['4', ['192.0.2.1']],
    ['6', ['2001:db8::7']],
  ])('has the addresses of family %s alone', async (_family, found) => {
    await serve(() => found)
    expect(await addressesOf('one.test')).toEqual(found)
  })

  test.each([
    'an_underscore.test',
    'UPPER.test',
    'xn--bcher-kva.test',
    '-x.test',
    'dotted.test.',
    'short',
  ])('finds %s', async host => {
    const { questions } = await serve(() => ['192.0.2.1'])
    expect(await addressesOf(host)).toEqual(['192.0.2.1'])
    expect(questions).toContain(`${host.toLowerCase().replace(/\.$/, '')} 4`)
  })

  test.each([
    ['a name that does not exist', 'x.test', NXDOMAIN, 'ENOTFOUND'],
    ['a name without addresses', 'x.test', [], 'ENOTFOUND'],
    ['a server that fails', 'x.test', SERVFAIL, 'ESERVFAIL'],
    ['a long label', `${'x'.repeat(64)}.test`, [], 'ENOTFOUND'],
    ['a long name', `${'abcdefgh.'.repeat(30)}test`, [], 'ENOTFOUND'],
    ['an empty label', 'a..test', [], 'ENOTFOUND'],
  ])('says why there are none: %s', async (_name, host, answer, code) => {
    await serve(() => answer)
    expect(await codeOf(host)).toBe(code)
  })

  test('takes an answer over TCP, and few of many addresses', async () => {
    await serve(() => Array.from({ length: 100 }, (_, at) => `192.0.2.${at}`))
    expect(await addressesOf('many.test')).toHaveLength(32)
  })

  test.each(['localhost', 'LOCALHOST', 'localhost.', 'a.localhost', 'b.a.localhost.'])(
    'of %s is this machine, and no server is asked',
    async host => {
      const { questions } = await serve(() => ['192.0.2.1'])
      for (const address of await addressesOf(host)) expect(['127.0.0.1', '::1']).toContain(address)
      expect(questions).toEqual([])
    },
  )

  test('of a name in .invalid finds nothing, and no server is asked', async () => {
    const { questions } = await serve(() => ['192.0.2.1'])
    expect([await codeOf('nobody.invalid'), await codeOf('invalid.')]).toEqual([
      'ENOTFOUND',
      'ENOTFOUND',
    ])
    expect(questions).toEqual([])
  })

  test('ends with its request, and gives its turn back', async () => {
    const { questions } = await serve(name => (name.startsWith('slow') ? 'silence' : ['192.0.2.1']))
    const { signal, end } = abort()
    const slow = Array.from({ length: 40 }, (_, at) =>
      lookUp({ host: `slow${at}.test`, caller: 'a', signal }),
    )
    const ended = Promise.allSettled(slow)
    // Each name is asked for in both families.
    await until(() => questions.length === 32)
    const waiting = addressesOf('good.test')
    expect(await lookUp({ host: 'good.test', caller: 'b', signal: never })).toHaveLength(1)
    // The other caller's names were asked for meanwhile, and none but the sixteen of this one.
    expect(namesOf(questions)).toHaveLength(17)
    const asked = questions.length
    end()
    expect(await ended).toEqual(slow.map(() => ({ status: 'rejected', reason: signal.reason })))
    expect(await waiting).toEqual(['192.0.2.1'])
    // The turn was given back at once: no question was repeated meanwhile.
    expect(questions.slice(asked).filter(question => question.startsWith('slow'))).toEqual([])
  })
})

function abort(): { readonly signal: AbortSignal; end(): void } {
  const controller = new AbortController()
  return { signal: controller.signal, end: () => controller.abort(new Error('over')) }
}

/** The names that were asked for, each once: a question without an answer is repeated. */
const namesOf = (questions: readonly string[]): readonly string[] => [
  ...new Set(questions.map(question => question.split(' ')[0] as string)),
]

test('a caller whose name servers never answer delays no other caller', async () => {
  const { questions } = await serve(name => (name === 'api.test' ? ['127.0.0.1'] : 'silence'))
  const { ca, issue } = await createCertificateAuthority()
  const said = reply('200 OK\r\ncontent-length: 2', 'ok')
  const api = await startRawServer(socket => socket.end(said), {
    ca,
    ...issue({ hosts: ['api.test'] }),
  })
  closing.push(api.close)
  const { signal, end } = abort()
  const attacker = { name: 'attacker', signal }
  const attack = Promise.allSettled(
    Array.from({ length: 64 }, (_, at) =>
      ask({ url: `https://n${at}.slow.test/` }, { caller: attacker }),
    ),
  )
  await until(() => namesOf(questions).length === 16)
  const url = api.url.replace('127.0.0.1', 'api.test')
  const answers = await Promise.all(
    Array.from({ length: 5 }, () =>
      ask({ url, customRootCaCertPem: ca }, { caller: { name: 'victim' } }),
    ),
  )
  expect(answers.map(textOf)).toEqual(Array(5).fill('ok'))
  end()
  for (const { status } of await attack) expect(status).toBe('rejected')
})

test('a host without an allowed address is blocked', async () => {
  await serve(() => ['10.0.0.1', 'fd00::1'])
  const blocked = await ask({ url: 'https://inner.test/' })
  expect([blocked.statusCode, textOf(blocked)]).toEqual([
    400,
    'upstream request blocked by enclave network policy',
  ])
})

test.each([
  ['that refuses', async () => void (await serve(() => REFUSED))],
  ['that is not there', async () => (await serve(() => [])).stop()],
])('a name server %s is a 502', async (_name, start) => {
  await start()
  const response = await ask({ url: 'https://any.test/' })
  expect([response.statusCode, textOf(response)]).toEqual([502, 'upstream host unreachable'])
})

describe('the hosts file', () => {
  test('has several names a line, comments, either line end and either case', () => {
    const hosts = parseHosts(
      [
        '\uFEFF# 192.0.2.9 commented',
        '192.0.2.1  API.test api\t# 192.0.2.9',
        '2001:db8::7\tapi.test.',
        'fe80::1%lo0 api.test',
        'no-address api.test',
        '192.0.2.2 api.test\r',
        '192.0.2.3',
        '',
      ].join('\n'),
    )
    expect(hosts).toEqual(
      new Map([
        ['api.test', ['192.0.2.1', '2001:db8::7', '192.0.2.2']],
        ['api', ['192.0.2.1']],
      ]),
    )
  })

  test('is read again when it has changed, is bounded, and need not be there', () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-hosts-'))
    try {
      const file = join(folder, 'hosts')
      let parsed = 0
      const read = readChanging(file, text => {
        parsed++
        return text
      })
      expect(read()).toBe('')
      writeFileSync(file, 'one\n')
      expect([read(), read()]).toEqual(['one\n', 'one\n'])
      expect(parsed).toBe(2)
      writeFileSync(file, `${'two\n'.repeat(262_143)}three\n`)
      expect(read()).toBe('two\n'.repeat(262_143))
      rmSync(file)
      expect(read()).toBe('')
      mkdirSync(file)
      expect(read()).toBe('')
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

describe('the search list', () => {
  test.each([
    ['', [], 1],
    ['search a.test b.test.\nnameserver 192.0.2.1\n', ['a.test', 'b.test'], 1],
    ['domain a.test\nsearch b.test . # c.test\n', ['b.test'], 1],
    ['options rotate ndots:5 timeout:1\n; search x.test\n', [], 5],
    ['options ndots:99\n', [], 15],
    ['options ndots:x ndots:-1\n', [], 1],
    [`search ${'x.test '.repeat(20)}`, Array(6).fill('x.test'), 1],
  ])('of %j', (text, domains, ndots) => {
    expect(parseSearch(text)).toEqual({ domains, ndots })
  })

  test.each([
    ['api', 1, ['api.a.test', 'api.b.test', 'api']],
    ['api.', 1, ['api.']],
    ['api.ns', 1, ['api.ns']],
    ['api.ns', 2, ['api.ns.a.test', 'api.ns.b.test', 'api.ns']],
  ])('makes of %s with ndots:%i', (host, ndots, names) => {
    expect(candidatesOf(host, { domains: ['a.test', 'b.test'], ndots })).toEqual(names)
  })
})
