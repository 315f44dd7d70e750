import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { publishedReports } from '@sluice/test-support/report/published-reports.js'
import { formatPrice } from 'sluice/report'
import { runHere, start } from './support/cli.js'

const [published] = publishedReports

let engine: DataEngine
beforeAll(async () => {
  engine = await startDataEngine({
    feeds: [published?.feedID as string],
    intervalMs: 50,
    runAhead: true,
  })
})
afterAll(() => engine.close())

const run = (args: readonly string[], env: Record<string, string> = {}, input = '') =>
  runHere(args, { env, input })
const credentials = () => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
})

describe('sluice demo', () => {
  test('streams from a local engine and finds nothing lost or doubled', async () => {
    const { code, out, err } = await startCommand(['demo', '--seconds', '2']).ended
    expect(err).toBe('')
    expect(out).toMatch(/20 feeds/)
    expect(out).toMatch(/├ hmac-auth {5}attempt/)
    expect(out).toMatch(/V3 {3}\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ {2}price \d+\.\d{4}/)
    const [, publishedCount, delivered] =
      /published {3}(\d+)\ndelivered {3}(\d+)\nlost {8}0\nduplicated {2}0\n/.exec(out) ?? []
    expect(Number(publishedCount)).toBeGreaterThan(0)
    expect(delivered).toBe(publishedCount)
    expect(out.indexOf('origin 001 is back and delivers')).toBeGreaterThan(
      out.indexOf('origin 001 is started again'),
    )
    expect(code).toBe(0)
    expect(out).toMatch(/caller {6}sends “Bearer \{\{\.demoApiKey\}\}” to https:/)
    expect(out).toMatch(/server {6}received “Bearer sk_demo_[0-9a-f]{24}”: the secret/)
    expect(out).toMatch(/caller {6}decrypted \{"balance":"1250\.00","currency":"USD"\}/)
    expect(out).toMatch(/its own AES key is there [1-9]\d* times, the secret 0 times/)
  })
})

describe('sluice serve', () => {
  test('runs an engine that another command can use', async () => {
    const signers = join(mkdtempSync(join(tmpdir(), 'sluice-serve-')), 'signers.json')
    const { child, ended, output, shows } = startCommand([
      'serve',
      '--port',
      '0',
      '--api-key',
      'key',
      '--user-secret',
      'secret',
      '--interval',
      '50',
      '--signers-out',
      signers,
    ])
    await shows(/signed by/)
    // Standard output may become a file for --env-file.
    expect(output.out).toMatch(
      /^REST_URL=http:.*\nWS_URL=ws:.*\nAPI_KEY=key\nUSER_SECRET=secret\n$/,
    )
    const env = Object.fromEntries(
      [...output.out.matchAll(/^([A-Z_]+)=(.*)$/gm)].map(([, name, value]) => [name, value]),
    ) as Record<string, string>
    const feeds = await run(['feeds'], env)
    expect(feeds.out.trim().split('\n')).toHaveLength(19)
    const streaming = start(['stream', feeds.out.split('\n')[0] as string, '--json'], { env })
    await streaming.shows(/^(.*\n){3}/)
    streaming.stop('SIGTERM')
    expect((await streaming.ended).code).toBe(0)
    const [line] = streaming.output.out.split('\n')
    expect(JSON.parse(line as string).decoded).toMatchObject({
      version: 'V3',
      price: expect.stringMatching(/^\d+$/),
    })
    const { fullReport } = JSON.parse(line as string)
    const verified = await run(['verify', fullReport, '--signers', signers])
    expect(verified.out).toMatch(/^verified: signed by 2, of whom 1 may be faulty/)
    child.kill('SIGTERM')
    expect((await ended).code).toBe(0)
    rmSync(dirname(signers), { recursive: true })
  })
})

describe('sluice decode', () => {
  test('prints the fields of a report, whose feed it reads itself', async () => {
    const { code, out } = await run(['decode', published?.fullReport as string, '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({
      version: 'V3',
      feedID: published?.feedID,
      price: published?.decoded.price,
    })
  })

  test('reads from a pipe', async () => {
    const { code, out } = await run(['decode', '-'], {}, `${published?.fullReport}\n`)
    expect(code).toBe(0)
    expect(out).toMatch(
      new RegExp(`price +${formatPrice(BigInt(published?.decoded.price as string), 18)}\n`),
    )
  })

  test('ends with 5 for what is no report', async () => {
    const { code, err } = await run(['decode', `${published?.fullReport.slice(0, -64)}`])
    expect(code).toBe(5)
    expect(err).toMatch(/^sluice: fullReport of feed 0x.* is refused/)
  })
})

describe('an option given twice', () => {
  test.each([
    [['demo', '--seconds', '1', '--seconds', '2'], '--seconds'],
    [['serve', '--user-secret', 'a', '--user-secret=a'], '--user-secret'],
    [['latest', '0x12', '--json', '--json'], '--json'],
    [['verify', '0x12', '--signers', '0x12', '--f', '1', '--signers', '0x34'], '--signers'],
    [['vault', 'list', '--vault', 'a', '--vault', 'b'], '--vault'],
  ])('is refused by %j', async (args, option) => {
    expect(await run(args)).toEqual({
      code: 2,
      out: '',
      err: `sluice: ${option} must be given once only\n`,
    })
  })
})

describe('an error of the arguments', () => {
  const key = '5a'.repeat(32)
  test.each([
    [
      ['enclave', '--key', 'x', `--caller-keys=${key}`],
      /^sluice: unknown option '--caller-keys=…': --help lists all\n$/,
    ],
    [
      ['enclave', '--key', 'x', `--caller${key}`],
      /unknown option '--caller\[64 hexadecimal digits\]'/,
    ],
    [['enclave', '--key', 'x', `-k${key}`], /unknown option '-k\[64 hex/],
    [['enclave', '--key', 'x', `--loopback=${key}`], /unknown option '--loopback=…'/],
    [['enclave', '--key', 'x', '--caller', key, '--port', key], /argument '\[64 hex.* a number/],
    [[key], /unknown command '\[64 hex/],
    [['verify', key, '--signers', '0x12', '--f', '1'], /be read from \[64 hex.*: ENOENT/],
    [['vault', 'list', '--vault', key], /\/\[64 hexadecimal digits\] is not a vault/],
    [['vault', 'put', 'name', '--vault', 'none', `--value=${key}'s`], /'--value=…'/],
  ])('repeats no key: %j', async (args, message) => {
    const { code, out, err } = await run(args)
    expect(err).toMatch(message)
    expect(err).not.toMatch(/5a5a/)
    expect(out).toBe('')
    expect(code).not.toBe(0)
  })
})

describe('exit codes', () => {
  test.each([
    ['wrong arguments', ['demo', '--seconds', 'soon'], {}, 2, /must be a number/],
    ['an unknown command', ['dance'], {}, 2, /unknown command/],
    ['no credentials', ['feeds'], {}, 2, /API_KEY and USER_SECRET/],
    [
      'a feed id that is none',
      ['latest', '0x12'],
      { API_KEY: 'a', USER_SECRET: 'b' },
      2,
      /the feed must be/,
    ],
  ])('%s', async (_name, args, env, expected, message) => {
    const { code, err } = await run(args, env as Record<string, string>)
    expect(err).toMatch(message)
    expect(code).toBe(expected)
  })

  test('rejected credentials are 3, no network is 4, help is 0', async () => {
    const { feedID } = published as { feedID: string }
    expect(await run(['latest', feedID], { ...credentials(), USER_SECRET: 'wrong' })).toMatchObject(
      { code: 3 },
    )
    engine.fail({ status: 404 })
    expect(await run(['latest', feedID], credentials())).toMatchObject({ code: 4 })
    expect(await run(['--help'])).toMatchObject({ code: 0 })
    const { code, out } = await run(['latest', feedID], {
      STREAMS_API_KEY: engine.apiKey,
      STREAMS_API_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
    })
    expect(out).toMatch(/version +V3/)
    expect(code).toBe(0)
  })
})
