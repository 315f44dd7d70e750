import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { flip, published, publishedSigners } from '@sluice/test-support/report/signed-reports.js'
import { runHere } from './support/cli.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-verify-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const verify = (args: readonly string[], input?: string) =>
  runHere(['verify', ...args], { input: input ?? '' })

function file(name: string, content: unknown): string {
  const text = typeof content === 'string' ? content : JSON.stringify(content)
  const path = join(folder, name)
  writeFileSync(path, text)
  return path
}

const { fullReport, feedID, configDigest, signers, decoded } = published(8)
const list = publishedSigners.signers.join(',')
const byList = ['--signers', list, '--f', '1']
const summary = [
  'verified: signed by 2, of whom 1 may be faulty',
  `feed           ${feedID}`,
  `observed       ${decoded.observationsTimestamp} (2025-06-03 15:25:17Z)`,
  `config digest  ${configDigest}`,
  'sequence       4277130',
  ...signers.map(signer => `signer         ${signer}`),
  '',
].join('\n')

describe('sluice verify', () => {
  const record = {
    feedID,
    fullReport,
    validFromTimestamp: Number(decoded.validFromTimestamp),
    observationsTimestamp: Number(decoded.observationsTimestamp),
  }
  test('takes a report as digits, a file or standard input, bare or as the service sends it', async () => {
    const ways: readonly (readonly [readonly string[], string?])[] = [
      [[fullReport]],
      [[file('report.hex', `${fullReport}\n`)]],
      [[fullReport.slice(2)]],
      [[file('bare.hex', `${fullReport.slice(2).toUpperCase()}\n`)]],
      [[file('report.json', { report: record })]],
      [['-'], `${fullReport}\n`],
      [['-'], JSON.stringify(record)],
      [['-'], JSON.stringify({ fullReport })],
    ]
    const ran = await Promise.all(ways.map(([args, input]) => verify([...args, ...byList], input)))
    expect(ran).toEqual(ways.map(() => ({ code: 0, out: summary, err: '' })))
  })

  test('takes signers from a file, one set or several', async () => {
    const one = file('one.json', publishedSigners)
    const some = file('some.json', [
      { ...publishedSigners, configDigest: published(0).configDigest },
      { ...publishedSigners, configDigest },
    ])
    const ran = await Promise.all([one, some].map(each => verify([fullReport, '--signers', each])))
    expect(ran.map(({ code, out }) => [code, out])).toEqual([
      [0, summary],
      [0, summary],
    ])
  })

  test('tells JSON', async () => {
    const { code, out } = await verify([
      fullReport,
      ...byList,
      '--feed',
      feedID,
      '--quorum',
      'exactly',
      '--json',
    ])
    expect(JSON.parse(out)).toMatchObject({ verified: true, feedID, configDigest, signers, f: 1 })
    expect(code).toBe(0)
    const refused = await verify([flip(fullReport, 3300), ...byList, '--json'])
    expect(JSON.parse(refused.out)).toMatchObject({ verified: false, reason: 'unknown-signer' })
    expect([refused.code, refused.err]).toEqual([1, ''])
  })

  test('ends with 1 and the reason where a report is refused', async () => {
    const cases: readonly (readonly [string, readonly string[], string?])[] = [
      ['unknown-signer', [flip(fullReport, 3300)]],
      ['malformed', ['0x00']],
      ['expired', [fullReport, '--check-expiry']],
      ['wrong-feed', [fullReport, '--feed', published(0).feedID]],
      ['wrong-feed', ['-'], JSON.stringify({ ...record, feedID: published(0).feedID })],
      [
        'wrong-feed',
        ['-', '--feed', feedID],
        JSON.stringify({ ...record, feedID: published(0).feedID }),
      ],
      ['wrong-time', ['-'], JSON.stringify({ ...record, observationsTimestamp: 1 })],
    ]
    await Promise.all(
      cases.map(async function runOne([reason, args, input]) {
        const { code, out, err } = await verify([...args, ...byList], input)
        expect([code, out]).toEqual([1, ''])
        expect(err).toMatch(new RegExp(`^sluice: .*is not verified: .* \\(${reason}\\)\n$`))
      }),
    )
  })

  test('ends with 2 for wrong arguments, and says which', async () => {
    const set = file('wrong.json', { ...publishedSigners, f: 2 })
    const cases: readonly (readonly [string, readonly string[], string?])[] = [
      ['--signers', [fullReport]],
      ['--f must be given', [fullReport, '--signers', list]],
      ['--f goes with a list', [fullReport, '--signers', set, '--f', '1']],
      ['signers must be more than 3 f', [fullReport, '--signers', set]],
      ['--signers can’t be read from none.json: ENOENT', [fullReport, '--signers', 'none.json']],
      ['text.json must be JSON', [fullReport, '--signers', file('text.json', 'text')]],
      ['the report can’t be read from none.hex: ENOENT', ['none.hex', ...byList]],
      ['the report on line 1 must be hexadecimal digits or JSON', ['-', ...byList], '{'],
      ['the report must be given: the input is empty', ['-', ...byList], '\n'],
      ['the report is neither hexadecimal nor', [`${fullReport.slice(2)}?`, ...byList]],
      ['addresses alone are given as', [fullReport, '--signers', file('plain.txt', list)]],
      ['the report must have a fullReport', ['-', ...byList], '{"report":{}}'],
      ['quorum must be', [fullReport, ...byList, '--quorum', 'most']],
      ['"ETH" is no feed: it must be', [fullReport, ...byList, '--feed', 'ETH']],
    ]
    await Promise.all(
      cases.map(async function runOne([message, args, input]) {
        const { code, out, err } = await verify(args, input)
        expect([code, out]).toEqual([2, ''])
        expect(err).toContain(message)
        expect(err.length).toBeLessThan(400)
      }),
    )
  })
})
