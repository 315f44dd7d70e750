import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { gzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { knownFeeds } from 'sluice'
import type { Proof } from 'sluice/proof'
import { runHere, start } from './support/cli.js'

const eth = knownFeeds.testnet['ETH/USD'].feedID
const FIRST = 1_700_000_000
const e18 = 10n ** 18n

let engine: DataEngine
let signers: string
const folder = mkdtempSync(join(tmpdir(), 'sluice-prove-'))
const inFolder = (name: string): string => join(folder, name)
beforeAll(async () => {
  engine = await startDataEngine({ feeds: [eth], intervalMs: 0, history: 0 })
  // The 20th second was never stored, and the 31st absorbed the 30th.
  for (let at = 0; at < 60; at++) {
    if (at === 20 || at === 30) continue
    engine.publish(eth, {
      validFromTimestamp: FIRST + (at === 31 ? 30 : at),
      observationsTimestamp: FIRST + at,
      price: BigInt(3000 + at) * e18,
    })
  }
  signers = inFolder('signers.json')
  writeFileSync(signers, JSON.stringify(engine.network))
})
afterAll(async () => {
  await engine.close()
  rmSync(folder, { recursive: true })
})

const prove = (...args: readonly string[]) =>
  runHere(['prove', 'ETH/USD', ...args], {
    env: {
      API_KEY: engine.apiKey,
      USER_SECRET: engine.userSecret,
      REST_URL: engine.endpoint,
      WS_URL: engine.wsEndpoint,
    },
  })
const check = (args: readonly string[], input = '') => runHere(['check', ...args], { input })

describe('sluice prove and sluice check', () => {
  test('prove a price, and check it from a file and standard input', async () => {
    const made = await prove('--at', String(FIRST + 30))
    expect(made).toMatchObject({ code: 0 })
    expect(made.err).toContain(
      'price at 2023-11-14 22:13:50Z is 3031: 1 report; signatures are unchecked',
    )
    const path = inFolder('price.json')
    writeFileSync(path, made.out)
    const checked = await check([path, '--signers', signers])
    expect(checked).toMatchObject({ code: 0, err: '' })
    expect(checked.out).toContain('the proof holds: price at 2023-11-14 22:13:50Z is 3031')
    expect(checked.out).toMatch(/assumed +The signers that you gave/)
    const json = await check(['-', '--signers', signers, '--json'], made.out)
    expect(JSON.parse(json.out)).toMatchObject({ holds: true, value: String(3031n * e18) })
  })

  test('prove an average, with its holes', async () => {
    const window = ['--from', String(FIRST + 15), '--to', String(FIRST + 25)]
    const out = inFolder('average.json')
    const made = await prove(...window, '--open', 'from', '--straddling', 'clip', '--out', out)
    expect(made).toMatchObject({ code: 0, out: '' })
    expect(made.err).toContain('with 1 hole')
    const proof = JSON.parse(readFileSync(out, 'utf8')) as Proof
    const seconds = [16, 17, 18, 19, 21, 22, 23, 24, 25]
    const sum = seconds.reduce((total, at) => total + BigInt(3000 + at) * e18, 0n)
    expect(proof.claim).toMatchObject({ sum: String(sum), duration: 9, value: String(sum / 9n) })
    const checked = await check([out, '--signers', signers])
    expect(checked.out).toMatch(/the proof holds, with holes/)
    expect(checked.out).toMatch(/missing +2023-11-14 22:13:40Z/)
    expect(checked.out).toMatch(
      /between +the report of 2023-11-14 22:13:39Z to 22:13:39Z, and that of 2023-11-14 22:13:41Z/,
    )
    const again = await prove(...window, '--open', 'from', '--straddling', 'clip', '--out', out)
    expect(again).toMatchObject({ code: 2 })
    expect(again.err).toMatch(/--out can’t be written to .*there is another file/)
  })

  test('refuse a damaged proof, and say why', async () => {
    const { out } = await prove('--at', String(FIRST + 10))
    const proof = JSON.parse(out) as Proof
    const damaged = { ...proof, claim: { ...proof.claim, value: '1' } }
    const refused = await check(['-', '--signers', signers], JSON.stringify(damaged))
    expect(refused).toMatchObject({ code: 1, out: '' })
    expect(refused.err).toMatch(
      /the proof is refused: claim.value must be \d+, as its reports give \(value\)/,
    )
    const json = await check(['-', '--signers', signers, '--json'], '{')
    expect(JSON.parse(json.out)).toMatchObject({ holds: false, reason: 'malformed' })
    expect(json.code).toBe(1)
  })

  test('read a file with a byte order mark, and refuse a compressed one', async () => {
    const { out } = await prove('--at', '2023-11-14T22:13:30')
    const path = inFolder('mark.json')
    writeFileSync(path, `\uFEFF${out}`)
    const read = await check([path, '--signers', signers])
    expect(read.out).toContain('the proof holds: price at 2023-11-14 22:13:30Z is 3010')
    writeFileSync(path, gzipSync(out))
    const refused = await check([path, '--signers', signers])
    expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('not compressed') })
  })

  const onLinux = process.platform === 'linux' ? test : test.skip
  onLinux('say that a device is full, and read no file without an end', async () => {
    const full = await prove('--at', String(FIRST + 10), '--out', '/dev/full')
    expect(full).toMatchObject({ code: 2, err: expect.stringContaining('the disk is full') })
    for (const args of [
      ['/dev/zero', '--signers', signers],
      ['-', '--signers', '/dev/zero'],
    ]) {
      const refused = await check(args, '{}')
      expect(refused).toMatchObject({ code: 2, err: expect.stringContaining('must have at most') })
    }
  })

  test('a proof that is waited for ends with Ctrl-C', async () => {
    const { ended, stop } = start(['check', '-', '--signers', signers], {
      input: new PassThrough(),
    })
    setTimeout(stop, 50)
    expect(await ended).toMatchObject({ code: 130, out: '' })
  })

  test('name what is wrong with the arguments', async () => {
    const cases: readonly (readonly [readonly string[], RegExp])[] = [
      [[], /--at, or --from and --to, must be given/],
      [['--at', '2099-01-01'], /--at must not be in the future/],
      [
        ['--from', String(FIRST), '--to', String(FIRST + 9)],
        /--open and --straddling must be given/,
      ],
      [['--at', String(FIRST + 9), '--field', 'pryce'], /field must name an exact number/],
      [['--at', String(FIRST + 9), '--from', '5'], /--at/],
      [['--at', '2023-11-14T22:13:30.5Z'], /--at must be a whole second/],
      [['--at', '0000-01-01'], /--at.* must be a date such as/],
      [['--at', '2023-11-14 22:13 PST'], /--at.* must be a date such as/],
    ]
    for (const [args, message] of cases) {
      const ran = await prove(...args)
      expect(ran.err).toMatch(message)
      expect(ran).toMatchObject({ code: 2, out: '' })
    }
    expect(await check(['nothing.json', '--signers', signers])).toMatchObject({ code: 2 })
    expect(await check(['-'])).toMatchObject({ code: 2 })
  })
})
