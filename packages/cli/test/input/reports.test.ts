import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterAll, describe, expect, test } from '@jest/globals'
import { published, publishedSigners } from '@sluice/test-support/report/signed-reports.js'
import { runHere } from '../support/cli.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-input-'))
afterAll(() => rmSync(folder, { recursive: true }))

const [one, other] = [published(8), published(0)]
const signers = ['--signers', publishedSigners.signers.join(','), '--f', '1']
const json = ({ feedID, fullReport }: typeof one) => ({ feedID, fullReport })
const bare = (text: string): string => text.slice(2)
const two = [json(one), json(other)]

const inputs: Readonly<Record<string, string>> = {
  'digits a line': `${one.fullReport}\n${bare(other.fullReport).toUpperCase()}\n`,
  'JSON a line': `${JSON.stringify(json(one))}\r\n\n${JSON.stringify({ report: json(other) })}`,
  'digits and JSON': `${bare(one.fullReport)}\n${JSON.stringify(json(other))}\n`,
  'digits as JSON': JSON.stringify([one.fullReport, bare(other.fullReport)]),
  'a list': JSON.stringify(two),
  'a list on several lines': JSON.stringify(two, undefined, 2),
  'a list with an item a line': `[\n${two.map(each => JSON.stringify(each)).join(',\n')}\n]\n`,
  'a page': JSON.stringify({ reports: two }),
  'pages on several lines': two
    .map(each => JSON.stringify({ reports: [each] }, undefined, 1))
    .join('\n'),
  'JSON without 0x': JSON.stringify(
    two.map(each => ({ ...each, fullReport: bare(each.fullReport) })),
  ),
}

test.each(Object.entries(inputs))(
  '%s are two reports, wherever they come from',
  async (name, input) => {
    const file = join(folder, name)
    writeFileSync(file, input)
    writeFileSync(`${file}.gz`, gzipSync(input))
    const ways = [['-', input], ['-', gzipSync(input)], [file], [`${file}.gz`]] as const
    for (const [given, piped] of ways) {
      const around = piped === undefined ? {} : { input: piped }
      const decoded = await runHere(['decode', given, '--json'], around)
      expect([name, decoded.err, decoded.code]).toEqual([name, '', 0])
      const found = decoded.out.trim().split('\n')
      expect(found.map(line => JSON.parse(line).feedID)).toEqual([one.feedID, other.feedID])
      const { out, code } = await runHere(['verify', given, ...signers, '--json'], around)
      const verdicts = out
        .trim()
        .split('\n')
        .map(line => JSON.parse(line))
      expect(verdicts.map(({ verified }) => verified)).toEqual([true, true])
      expect(code).toBe(0)
    }
  },
)

test('a report that is wrong does not keep those after it from being decoded', async () => {
  const input = `${one.fullReport.slice(0, -64)}\n${other.fullReport}\n`
  const { out, err, code } = await runHere(['decode', '-'], { input })
  expect(out).toMatch(new RegExp(`^version +V\\d+\nfeedID +${other.feedID} \\(.*\\)\n`))
  expect(err).toMatch(/^sluice: fullReport of feed .*\n$/)
  expect(code).toBe(5)
})

test.each([
  ['nothing', '', 'the report must be given: the input is empty'],
  ['prose', 'no report', 'the report on line 1 must be hexadecimal digits or JSON'],
  [
    'half a value',
    `\n${JSON.stringify(two).slice(0, -9)}`,
    'the report on line 2 must be hexadecimal digits or JSON',
  ],
  ['other JSON', '{"a":1}', 'the report must have a fullReport: line 1 has none'],
  ['a number', '{"report":1}', 'the report must have a fullReport: line 1 has none'],
])('%s ends with 2 and one line', async (_name, input, message) => {
  const { err, code } = await runHere(['decode', '-'], { input })
  expect([err, code]).toEqual([`sluice: ${message}\n`, 2])
})

describe('a part that can’t be read is named and left out, and the exit code is 5:', () => {
  const line = JSON.stringify(json(one))
  const cut = line.slice(0, 200)
  const last = JSON.stringify(json(other))
  const pretty = JSON.stringify(json(other), undefined, 2)
  test.each([
    ['the last line is cut', `${line}\n${last}\n${cut}`, 3, 'digits'],
    ['a line in the midst is cut', `${line}\n${cut}\n${last}\n`, 2, 'digits'],
    ['two lines are cut', `${line}\n${cut}\n${cut}\n${last}\n`, 2, 'digits'],
    ['a line is something else', `${line}\nkilled\n${last}\n`, 2, 'digits'],
    [
      'a line is cut before a value of several lines',
      `${line}\n${last}\n{"fullRep\n${pretty}`,
      3,
      '',
    ],
    ['a line is other JSON', `${line}\n{"a":1}\n${last}\n`, 2, 'fullReport'],
  ])('%s', async (_, input, number, rule) => {
    const file = join(folder, 'part.ndjson')
    writeFileSync(file, input)
    for (const [given, piped] of [['-', input], [file]] as const) {
      const around = piped === undefined ? {} : { input: piped }
      const decoded = await runHere(['decode', given, '--json'], around)
      expect(decoded.err).toMatch(new RegExp(`on lines? ${number}|: line ${number}`))
      expect(decoded.err).toContain(rule === 'digits' ? 'hexadecimal digits or JSON' : rule)
      expect(decoded.code).toBe(5)
      const ids = decoded.out
        .trim()
        .split('\n')
        .map(text => JSON.parse(text).feedID)
      expect(ids).toEqual([one.feedID, other.feedID].slice(0, ids.length))
      expect((await runHere(['verify', given, ...signers], around)).code).toBe(5)
    }
    const gaps = await runHere(['gaps', file])
    expect([gaps.code, gaps.out]).toEqual([5, expect.stringContaining('no gaps')])
  })
})

test('what nobody pipes in is not waited for', async () => {
  for (const args of [
    ['decode', '-'],
    ['verify', '-', ...signers],
  ])
    expect(await runHere(args)).toEqual({
      code: 2,
      out: '',
      err: 'sluice: the report is read from standard input: pipe it in\n',
    })
})

test('a packed file that is being written is read as far as it goes', async () => {
  const file = join(folder, 'growing.ndjson.gz')
  const part = gzipSync(`${JSON.stringify(json(one))}\n`)
  writeFileSync(file, Buffer.concat([part, part, part.subarray(0, -20)]))
  const { out, err, code } = await runHere(['decode', file, '--json'])
  expect(out.split('\n').length).toBeGreaterThan(2)
  const message = `${file} ends in the middle of its compressed data: the reports after it are missing`
  expect([err, code]).toEqual([`sluice: ${message}\n`, 5])
  expect((await runHere(['gaps', file])).code).toBe(5)
  const wrong = Buffer.from(part).fill(0xff, 12, 30)
  writeFileSync(file, Buffer.concat([...Array<Buffer>(500).fill(part), wrong]))
  const damaged = await runHere(['decode', file, '--json'])
  const [line = ''] = damaged.out.split('\n')
  expect(JSON.parse(line)).toMatchObject({ feedID: one.feedID })
  expect(damaged.err).toMatch(
    /^sluice: .*growing.* is damaged \(Z_\w+\): the reports after it .*\n$/,
  )
  expect(damaged.code).toBe(5)
})

test('CSV has the columns of the first report', async () => {
  const { out } = await runHere(['decode', '-', '--csv'], { input: one.fullReport })
  const [head, row] = out
    .trim()
    .split('\n')
    .map(line => line.split(',')) as [string[], string[]]
  expect(head).toEqual(
    'feedID,name,validFromTimestamp,observationsTimestamp,price,marketStatus,fullReport'.split(','),
  )
  expect(Object.fromEntries(head.map((name, at) => [name, row[at]]))).toMatchObject({
    feedID: one.feedID,
    fullReport: one.fullReport,
    marketStatus: String(one.decoded.marketStatus),
  })
})
