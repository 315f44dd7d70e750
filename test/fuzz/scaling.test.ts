// What a parser does with ten times as much may take ten times as long, and not a hundred times.
import { expect, test } from '@jest/globals'
import type { RequestCall } from '../../client/contract/call.js'
import { errorFromAnswer, parseRetryAfter } from '../../client/request/http-error.js'
import { parseFrame } from '../../client/stream/intake.js'
import { parseCiphertext, parsePublicKey } from '../../crypto/tdh2/index.js'
import { parseDuration } from '../../packages/confidential-http/request/duration.js'
import { parseBase64 } from '../../packages/confidential-http/request/fields.js'
import { normalizeRequest } from '../../packages/confidential-http/request/normalize-request.js'
import { renderTemplate } from '../../plugins/confidential-http/templates/template.js'
import { allDecoders, decodeReport } from '../../plugins/decoders/versions.js'
import { parseOrigins } from '../../plugins/ha-discovery/index.js'
import { createDecoderTable } from '../../report/decoder.js'
import { toReport } from '../../report/report.js'
import { setOf } from '../support/crypto/tdh2-reference.js'
import { sample } from './samples.js'

const SHORT = 6000
const LONG = 10 * SHORT
/** Ten times as long is what is to be; a parser that looks back comes to a hundred. */
const RATIO = 30
/** What takes less than so many milliseconds does not look back: that would take thousands. */
const FLOOR = 50

const encoder = new TextEncoder()
const table = createDecoderTable(allDecoders)
const publicKey = parsePublicKey(setOf('3of5').public_key_json)
const now = (): number => 1_700_000_000_000

const headers = new Headers({ authorization: 'a-secret-key' })
const call = { kind: 'request', method: 'GET', url: 'https://api.example/x', headers }

const parsers: readonly (readonly [string, (text: string) => unknown])[] = [
  ['frames', text => toReport(parseFrame(encoder.encode(text)), 'one', table)],
  ['frames of a long report', text => toReport({ ...sample, fullReport: text }, 'one', table)],
  ['signed reports', text => decodeReport(`0x${text}`, sample.feedID)],
  ['origins', parseOrigins],
  ['Retry-After', text => parseRetryAfter(text, now)],
  ['refusals', text => refuse(text)],
  ['refusals in JSON', text => refuse(JSON.stringify({ message: text }))],
  ['templates', text => renderTemplate('bodyString', text, () => '')],
  ['durations', text => parseDuration('timeout', text)],
  ['base64', parseBase64],
  ['ciphertexts', text => parseCiphertext(publicKey, text)],
  [
    'ciphertexts of long fields',
    text => parseCiphertext(publicKey, JSON.stringify({ TDH2Ctxt: text })),
  ],
  ['requests: url', text => request({ url: `https://a.example/${text}` })],
  ['requests: method', text => request({ method: text })],
  ['requests: body', text => request({ bodyBytes: text })],
  ['requests: certificate', text => request({ customRootCaCertPem: text })],
  ['requests: header name', text => request({ multiHeaders: { [text]: { values: [] } } })],
  ['requests: unknown name', text => request({ [text]: 1 })],
  ['requests: JSON', text => normalizeRequest(JSON.parse(text))],
]

function refuse(body: string): unknown {
  const answer = { status: 403, headers: new Headers(), body: encoder.encode(body) }
  return errorFromAnswer(call as unknown as RequestCall, answer, now)
}

function request(fields: object): unknown {
  return normalizeRequest({ request: { url: 'https://a.example', method: 'GET', ...fields } })
}

/** Runs that a pattern might try in many ways, each with an end that does not fit. */
const runs = [
  ...['0', 'a', 'A', ' ', '\n', '\\', '"', '=', '-', '/', '[', '{', '}', '{"a":', '[[', ',', '.'],
  ...['{{', '{{.a', '{{.a}}', '{{- .a -}}', '{{/*', '{{/**/', '{{/* */}}', '{{.a ', '}}', '} '],
  ...[
    '<',
    '< ',
    '<title',
    '<title>',
    '<!--',
    '-----BEGIN CERTIFICATE-----',
    '=\n',
    '0x',
    '__proto__',
    '\ud800',
    '🙂',
    'a_',
    'Aa',
    'é',
  ],
]
const ends =
  process.env.FUZZ_INPUTS === undefined ? ['', 'x{{- .a}}'] : ['', 'x{{- .a}}', 'x', '}', '\0', '!']

function fill(run: string, length: number, end: string): string {
  return run.repeat(Math.ceil(length / run.length)) + end
}

/** Milliseconds of this process’s own work, since others are at work on this machine too: the best of some rounds. */
function time(read: (text: string) => unknown, text: string, rounds: number): number {
  let best = Number.POSITIVE_INFINITY
  for (let round = 0; round < rounds; round++) {
    const started = process.cpuUsage()
    try {
      read(text)
    } catch {
      // What it says of it is another test's.
    }
    best = Math.min(best, process.cpuUsage(started).user / 1000)
  }
  return best
}

test.each(parsers)('%s: ten times as much takes no more than thirty times as long', (_, read) => {
  for (const run of runs) {
    for (const end of ends) {
      const long = fill(run, LONG, end)
      const first = time(read, long, 1)
      if (first < FLOOR) continue
      // What takes a second is not slow by chance.
      const best = first > 1000 ? first : Math.min(first, time(read, long, 4))
      let ratio = best < FLOOR ? 0 : best / time(read, fill(run, SHORT, end), 9)
      // Other work on the machine may have held up all rounds of one length.
      for (let again = 0; again < 3 && ratio > RATIO && first <= 1000; again++)
        ratio = Math.min(ratio, time(read, long, 4) / time(read, fill(run, SHORT, end), 9))
      if (ratio > RATIO) throw new Error(`${JSON.stringify(run + end)}: ${ratio.toFixed(0)} times`)
    }
  }
})

test('would notice a pattern that looks back', () => {
  const slow = (text: string): boolean => /^\s*=|(\s+)-$/.test(`x${text}`)
  const ratio = time(slow, fill(' ', SHORT, 'x'), 2) / time(slow, fill(' ', SHORT / 10, 'x'), 5)
  expect(ratio).toBeGreaterThan(RATIO)
})
