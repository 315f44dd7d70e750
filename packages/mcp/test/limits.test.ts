import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { closeAfterEach } from '@sluice/test-support/closing.js'
import { readSettings } from '../config.js'
import {
  envOf,
  recordingOf,
  runCommand,
  type Session,
  startSession,
  temporaryFolder,
} from './support/mcp.js'

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
const closers = closeAfterEach()
const secret = 'k3y-of-the-node'
const outside = temporaryFolder()
const inside = temporaryFolder()

let engine: DataEngine
let session: Session
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [ethUsd], intervalMs: 5000, history: 50 })
  session = await startSession(envOf(engine, { SLUICE_RECORDINGS: inside.path }))
  const reports = engine.ledger().slice(0, 50)
  recordingOf(join(outside.path, 'other.ndjson'), reports)
  const holes = reports.filter((_, i) => i !== 10 && i !== 20 && i !== 21)
  recordingOf(join(inside.path, 'holes.ndjson'), [...holes, ...holes.slice(0, 3)])
  recordingOf(join(inside.path, 'whole.ndjson'), reports)
  const { fullReport } = reports[0] as { fullReport: string }
  const zipped = gzipSync(`${JSON.stringify({ fullReport })}\n`.repeat(3))
  writeFileSync(join(inside.path, 'zipped.ndjson.gz'), Buffer.concat([zipped, zipped]))
  writeFileSync(join(inside.path, 'cut.ndjson.gz'), zipped.subarray(0, zipped.length - 9))
  writeFileSync(join(inside.path, 'tail.ndjson.gz'), Buffer.concat([zipped, Buffer.from('tail')]))
  const mixed = gzipSync(`${JSON.stringify({ fullReport })}\njunk\n`)
  writeFileSync(join(inside.path, 'mixed.ndjson.gz'), mixed)
  writeFileSync(join(inside.path, 'junk.ndjson'), 'junk\n{"fullReport":1}\n'.repeat(1000))
  writeFileSync(join(inside.path, 'long.ndjson'), 'x'.repeat(100_000))
  writeFileSync(join(inside.path, 'bomb.gz'), gzipSync(Buffer.alloc(200_000_000)))
  writeFileSync(join(inside.path, 'large.ndjson'), '')
  truncateSync(join(inside.path, 'large.ndjson'), 80_000_000)
  mkdirSync(join(inside.path, 'folder.ndjson'))
  symlinkSync('/etc/passwd', join(inside.path, 'passwd.ndjson'))
  symlinkSync(outside.path, join(inside.path, 'out'))
  symlinkSync('/dev/zero', join(inside.path, 'zero.ndjson'))
  execFileSync('mkfifo', [join(inside.path, 'fifo.ndjson')])
})
afterAll(async () => {
  await session.close()
  await engine.close()
  inside.remove()
  outside.remove()
})

describe('recordings', () => {
  test('gaps, duplicates and what is whole', async () => {
    const { data } = await session.call('find_gaps', { file: 'holes.ndjson' })
    expect(data).toMatchObject({ reports: 47, duplicates: 3, missing: 2, possible: 0, feeds: 1 })
    const reports = engine.ledger()
    const date = (i: number, after = 0): string =>
      new Date(((reports[i]?.observationsTimestamp as number) + after) * 1000)
        .toISOString()
        .replace('.000', '')
    expect(data.gaps).toEqual([
      { feedID: ethUsd, from: date(9, 1), to: date(10), kind: 'missing' },
      { feedID: ethUsd, from: date(19, 1), to: date(21), kind: 'missing' },
    ])
    const page = await session.call('find_gaps', { file: 'holes.ndjson', limit: 1 })
    expect(page.data.nextOffset).toBe(1)
    const whole = await session.call('find_gaps', { file: 'whole.ndjson', feed: 'ETH/USD' })
    expect(whole.data).toMatchObject({ reports: 50, missing: 0, gaps: [] })
  })

  test('compressed files', async () => {
    const { data } = await session.call('find_gaps', { file: 'zipped.ndjson.gz' })
    expect(data).toMatchObject({ reports: 1, duplicates: 5, isCut: false })
    const cut = await session.call('find_gaps', { file: 'cut.ndjson.gz' })
    expect(cut.data).toMatchObject({ reports: 1, isCut: true })
    const tail = await session.call('find_gaps', { file: 'tail.ndjson.gz' })
    expect(tail).toMatchObject({ failure: 'no-report' })
    expect(tail.text).toContain('end early or are damaged')
    const mixed = await session.call('find_gaps', { file: 'mixed.ndjson.gz' })
    expect(mixed.text).toContain('1 lines of the file are no report')
  })

  test.each([
    ['../../etc/passwd', 'lie inside it'],
    ['../other.ndjson', 'lie inside it'],
    ['..', 'lie inside it'],
    ['.', 'lie inside it'],
    ['/etc/passwd', 'lie inside it'],
    ['/etc/no-such-file', 'lie inside it'],
    [`${'../'.repeat(30)}etc/passwd`, 'lie inside it'],
    ['folder.ndjson/../../../etc/passwd', 'lie inside it'],
    ['C:\\secrets', 'lie inside it'],
    ['whole.ndjson\0.gz', 'lie inside it'],
    ['passwd.ndjson', 'lie inside it'],
    ['out/other.ndjson', 'lie inside it'],
    ['zero.ndjson', 'lie inside it'],
    ['folder.ndjson', 'regular file'],
    ['fifo.ndjson', 'regular file'],
    ['large.ndjson', 'at most 67108864 bytes'],
    ['long.ndjson', 'at most 65536 characters'],
    ['bomb.gz', 'at most 65536 characters'],
    ['junk.ndjson', '2000 lines of the file are no report'],
    ['none.ndjson', 'whole.ndjson'],
  ])('%j is refused', async (file, rule) => {
    const { isError, text } = await session.call('find_gaps', { file })
    expect(isError).toBe(true)
    expect(text).toContain(rule)
    expect(text).not.toContain('root:')
    expect(text).not.toContain(outside.path)
  })

  test('without a directory', async () => {
    const other = await startSession(envOf(engine))
    closers.push(() => other.close())
    const { failure, text } = await other.call('find_gaps', { file: 'x' })
    expect([failure, text]).toEqual([
      'not-configured',
      expect.stringContaining('SLUICE_RECORDINGS'),
    ])
  })
})

const future = Date.now() + 3_600_000
const hostile: readonly (readonly [string, Record<string, unknown>])[] = [
  ...[
    '',
    'x'.repeat(200_000),
    '../../etc/passwd',
    `0x${'f'.repeat(63)}`,
    `0x${'0'.repeat(64)}`,
    'NaN',
    '\0\u202e"\n',
    '{{price}}',
    '💥'.repeat(40),
    '/',
    42,
    null,
    ['ETH/USD'],
    { feedID: ethUsd },
  ].flatMap(feed =>
    ['get_price', 'get_market_state', 'get_price_at'].map(
      tool => [tool, tool === 'get_price_at' ? { feed, at: 1_700_000_000 } : { feed }] as const,
    ),
  ),
  ...[
    '0001-01-01',
    '9999-12-31T23:59:59Z',
    '2027-02-30',
    '2027-01-31T25:00Z',
    'yesterday',
    'NaN',
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    -1e308,
    1e308,
    future,
    1_700_000_000.5,
    '1700000000.0001',
    '9'.repeat(5000),
    {},
    true,
  ].map(at => ['get_price_at', { feed: ethUsd, at }] as const),
  ['get_price', {}],
  ['get_price', { feed: ethUsd, more: 1 }],
  ['get_price', { feed: ethUsd, ['k'.repeat(9000)]: 1 }],
  ['find_feeds', { limit: 0 }],
  ['find_feeds', { limit: 1e9 }],
  ['find_feeds', { limit: 1.5 }],
  ['find_feeds', { offset: -1 }],
  ['find_feeds', { query: 'x'.repeat(100_000) }],
  ['find_feeds', { status: 'dead' }],
  ['check_report', { report: '0x' }],
  ['check_report', { report: `0x${'ab'.repeat(5000)}` }],
  ['check_report', { report: 'f'.repeat(100_000) }],
  ['check_report', { report: 'javascript:' }],
]

test.each(hostile)('%s refuses %p', async (tool, input) => {
  const { isError, text } = await session.call(tool, input)
  expect(isError).toBe(true)
  expect(text).toMatch(/^(invalid-input|unknown-feed|no-report|not-authorised|not-verified): /)
  expect(text.length).toBeLessThan(700)
  expect(text).not.toMatch(/\n|\0|\u202e| at .*\.js/)
})

test('an error names the field and its rule', async () => {
  const { text } = await session.call('find_feeds', { limit: 99 })
  expect(text).toBe('invalid-input: limit: Too big: expected number to be <=50')
  const other = await session.call('get_price', { feed: ethUsd, price: 1 })
  expect(other.text).toBe('invalid-input: "price" is no field: the fields are feed')
})

test('a moment long before the first report is no price', async () => {
  const { data } = await session.call('get_price_at', { feed: ethUsd, at: '1971-01-01' })
  expect(data).toMatchObject({ found: false, reason: 'missing' })
})

test('a tool that is not there', async () => {
  const asked = session.client.callTool({ name: 'sell_all'.repeat(1000) })
  await expect(asked).rejects.toThrow(/there is no tool.{1,300}check_report$/)
})

test('no secret is in an answer or in the log', async () => {
  const url = `http://127.0.0.1:9/${secret}?key=${secret}`
  const { SLUICE_SIGNERS: _, SLUICE_F: __, ...env } = envOf(engine)
  const other = await startSession({ ...env, SLUICE_ONCHAIN: url })
  closers.push(() => other.close())
  expect((await other.call('get_price', { feed: ethUsd })).failure).toBe('not-verified')
  engine.rotateKeys({ userSecret: 'another' })
  closers.push(() => engine.rotateKeys({ userSecret: env.USER_SECRET as string }))
  expect((await other.call('get_price', { feed: ethUsd })).failure).toBe('not-authorised')
  await other.call('find_feeds', { query: secret })
  for (const each of [secret, env.API_KEY as string, env.USER_SECRET as string])
    expect(other.traffic()).not.toContain(each)
})

test('the rate limit of the service is kept', async () => {
  const own = await startDataEngine({ feeds: [ethUsd], intervalMs: 0, rateLimit: 10 })
  const other = await startSession(envOf(own))
  closers.push(
    () => own.close(),
    () => other.close(),
  )
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => other.call('get_price', { feed: ethUsd })),
  )
  expect(answers.filter(({ isError }) => isError)).toEqual([])
  expect(own.requests().filter(({ status }) => status === 429)).toEqual([])
})

test('a service that does not answer: calls end in time, and too many are refused', async () => {
  const own = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
  const other = await startSession(envOf(own), { callTime: 1000 })
  closers.push(
    () => own.close(),
    () => other.close(),
  )
  own.blackhole(true)
  const answers = await Promise.all(
    Array.from({ length: 25 }, () => other.call('get_price', { feed: ethUsd })),
  )
  const failures = answers.map(({ failure }) => failure).sort()
  expect(failures).toEqual([...new Array(5).fill('busy'), ...new Array(20).fill('timeout')])
  own.blackhole(false)
  // The time of a call is short here.
  while ((await other.call('get_price', { feed: ethUsd })).failure === 'timeout') {}
  expect((await other.call('get_price', { feed: ethUsd })).failure).toMatch(/^(timeout)?$/)
})

const message = (method: string, params: object, id = 1): string =>
  JSON.stringify({ jsonrpc: '2.0', id, method, params })

describe('the process', () => {
  test('ends when its input ends, and prints the protocol alone', async () => {
    const { code, out } = await runCommand(envOf(engine), {
      lines: [message('tools/list', {}), 'junk', '{"jsonrpc":"2.0","method":5}'],
    })
    expect(code).toBe(0)
    const lines = out.trim().split('\n')
    expect(lines.map(line => JSON.parse(line).jsonrpc)).toEqual(['2.0'])
  })

  test('ends while a call is under way', async () => {
    const own = await startDataEngine({ feeds: [ethUsd], intervalMs: 0 })
    closers.push(() => own.close())
    own.blackhole(true)
    const params = { name: 'get_price', arguments: { feed: ethUsd } }
    const { code, out, err } = await runCommand(envOf(own), {
      lines: [message('tools/call', params)],
    })
    // It has not waited for the call.
    expect([code, out, err]).toEqual([0, '', expect.stringMatching(/get_price: failed, \d+ ms\n$/)])
  })

  test.each(['SIGTERM', 'SIGINT'] as const)('ends at %s', async kill => {
    const { code } = await runCommand(envOf(engine), { lines: null, kill })
    expect(code).toBe(0)
  })

  test('ends at a message without an end', async () => {
    const { code, out } = await runCommand(envOf(engine), { lines: ['x'.repeat(1_000_000)] })
    expect([code, out]).toEqual([0, ''])
  })

  test('refuses a wrong option with a line and the exit code 2', async () => {
    const ran = await runCommand(envOf(engine), { args: ['--api-key', 'x'] })
    expect(ran).toEqual({
      code: 2,
      out: '',
      err: expect.stringMatching(/^sluice-mcp: Unknown option '--api-key'.*\n$/),
    })
  })

  test('says how it is used', async () => {
    const { code, out } = await runCommand({}, { args: ['--help'] })
    expect(code).toBe(0)
    expect(out).toContain('SLUICE_RECORDINGS')
  })
})

test.each([
  [{}, ['--mainnet', '--testnet'], '--mainnet and --testnet exclude each other'],
  [{}, ['--recordings', '/no/such'], '--recordings must be a directory'],
  [{ SLUICE_F: 'x' }, [], 'SLUICE_F must be a whole number'],
  [{ SLUICE_SIGNERS: '0xab' }, [], 'signers'],
  [{}, ['--signers', '/dev/zero'], '--signers must be addresses, or a file'],
  [{ SLUICE_SIGNERS: '/no/such' }, [], 'SLUICE_SIGNERS must be addresses, or a file'],
  [{ SLUICE_ONCHAIN: `${secret}://x?${secret}` }, [], 'SLUICE_ONCHAIN'],
  [{ REST_URL: 'ftp://x' }, [], 'REST_URL'],
  [{ SLUICE_DECIMALS: '256' }, [], 'SLUICE_DECIMALS'],
  [{}, ['--api-key', 'x'], "Unknown option '--api-key'"],
])('the settings refuse %j %j', (env, args, rule) => {
  const base = { ...envOf(engine), SLUICE_SIGNERS: '', SLUICE_F: '' }
  let error: unknown
  try {
    readSettings(args, { ...base, ...(env as Record<string, string>) })
  } catch (thrown) {
    error = thrown
  }
  expect(error).toMatchObject({ code: 'VALIDATION', message: expect.stringContaining(rule) })
  expect((error as Error).message).not.toContain(`?${secret}`)
})
