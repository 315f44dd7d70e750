// Every parser that meets the network, and the inputs it is to take or to refuse.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { RequestCall, StreamCall } from '../../client/call.js'
import { errorFromAnswer, parseRetryAfter } from '../../client/request/http-error.js'
import { createRest } from '../../client/request/operations.js'
import type { Rest } from '../../client/rest.js'
import { readAnswer } from '../../confidential-http/remote/ask-enclave.js'
import { readBootKey } from '../../confidential-http/remote/boot-keys.js'
import { readEnvelope } from '../../confidential-http/remote/envelope.js'
import { Refusal } from '../../confidential-http/remote/refusal.js'
import {
  openAnswer,
  openRequest,
  sealAnswer,
  sealRequest,
  toJSON,
} from '../../confidential-http/remote/sealing.js'
import { parseBase64 } from '../../confidential-http/request/base64.js'
import { formatDuration, parseDuration } from '../../confidential-http/request/duration.js'
import { normalizeRequest } from '../../confidential-http/request/normalize-request.js'
import { normalizeResponse } from '../../confidential-http/response/normalize-response.js'
import { isStreamsError } from '../../core/errors.js'
import { boxKeys } from '../../crypto/sealed-box.js'
import {
  parseCiphertext,
  parseDecryptionShare,
  parseMasterSecret,
  parsePrivateShare,
  parsePublicKey,
} from '../../crypto/tdh2/index.js'
import {
  openAesGcm,
  sealAesGcm,
} from '../../plugins/confidential-http/response-encryption/aes-gcm.js'
import { renderTemplate } from '../../plugins/confidential-http/templates/template.js'
import { parseOrigins } from '../../plugins/ha-discovery.js'
import { type Verification, verifyReport } from '../../plugins/verify/verify-report.js'
import { allDecoders, decodeReport } from '../../presets/versions.js'
import { createDecoderTable } from '../../report/decoder-table.js'
import type { Report } from '../../report/report.js'
import { type ReportContext, readContext } from '../../report/report-context.js'
import { fileCursors } from '../../stores/file-cursors.js'
import { PEM } from '../support/confidential-http/certificate.js'
import { caseOf, setOf } from '../support/crypto/tdh2-reference.js'
import { type Input, mutants } from '../support/report/report-mutations.js'
import { published, publishedSigners } from '../support/report/signed-reports.js'
import type { Dice } from './dice.js'
import { openFrameReader } from './frame-reader.js'
import { makeFrame } from './frames.js'
import type { Target } from './fuzz.js'
import { anyWording, type JSONValue, mutateJSON, writeJSON } from './json-mutations.js'
import { mutateBytes, mutateText } from './mutations.js'
import { readFrame } from './reference-frame.js'
import { feeds, originals, records, sample } from './samples.js'

const NOW = 1_700_000_000_000
const now = (): number => NOW
const encoder = new TextEncoder()
const signal = new AbortController().signal

const ofText = {
  show: (text: string) => JSON.stringify(text),
  sizeOf: (text: string) => text.length,
}
const ofBytes = {
  show: (bytes: Uint8Array) => Buffer.from(bytes).toString('base64'),
  sizeOf: (bytes: Uint8Array) => bytes.byteLength,
}

/** A target that reads text like these. */
function text(
  name: string,
  samples: readonly string[],
  read: (text: string) => unknown,
  more: Partial<Target<string>> = {},
): Target<string> {
  return { name, make: dice => mutateText(samples, dice), read, ...ofText, ...more }
}

/** A target that reads JSON like this. */
function json(
  name: string,
  samples: readonly JSONValue[],
  read: (text: string) => unknown,
  more: Partial<Target<string>> = {},
): Target<string> {
  return { name, make: dice => makeJSON(samples, dice), read, ...ofText, ...more }
}

function makeJSON(samples: readonly JSONValue[], dice: Dice): string {
  let value = dice.pick(samples)
  for (let changes = dice.length(2); changes > 0; changes--) value = mutateJSON(value, dice)
  const written = writeJSON(value, dice, anyWording(dice))
  return dice.once(3) ? mutateText([written], dice) : written
}

function assert(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new Error(`not as promised: ${rule}`)
}

function checkTimes({ feedID, validFromTimestamp, observationsTimestamp }: Report): void {
  assert(/^0x[0-9a-f]{64}$/.test(feedID), 'a feed id in normal form')
  for (const time of [validFromTimestamp, observationsTimestamp])
    assert(Number.isSafeInteger(time) && time >= 0, 'times that are times')
}

function frames(): Target<Uint8Array> {
  const { read } = openFrameReader(feeds)
  return {
    name: 'messages of the stream',
    make: makeFrame,
    read(data) {
      const outcome = read(data)
      if (outcome instanceof Error) throw outcome
      return outcome
    },
    check(result, data, thrown) {
      const expected = readFrame(data, feeds)
      if (typeof expected === 'string') {
        assert(thrown !== undefined, `refused with ${expected}, as the plain reading has it`)
        assert(isStreamsError(thrown) && thrown.code === expected, `code ${expected}`)
        return
      }
      assert(result !== undefined, 'taken, as the plain reading has it')
      const report = result as Report
      checkTimes(report)
      for (const [name, value] of Object.entries(expected))
        assert(report[name as keyof Report] === value, `${name} as the plain reading has it`)
    },
    ...ofBytes,
  }
}

const decoding: Target<Input> = {
  name: 'signed reports, V2 to V14',
  make(dice) {
    const original = dice.pick(originals)
    if (dice.once(8)) return original
    const [mutant] = mutants(original, dice.below(2 ** 31), 1)
    return mutant as Input
  },
  read: ({ fullReport, feedID }) => decodeReport(fullReport, feedID),
  check(result, { feedID }) {
    if (result === undefined) return
    const { version } = result as { version: string }
    assert(version === `V${Number.parseInt(feedID.slice(3, 6), 16)}`, 'the version of the feed id')
  },
  show: input => JSON.stringify(input),
  sizeOf: ({ fullReport }) => fullReport.length,
}

const contexts: Target<Input> = {
  ...decoding,
  name: 'report contexts',
  read: ({ fullReport, feedID }) => readContext(fullReport, feedID),
  check(result) {
    if (result === undefined) return
    const { configDigest, extraHash, epoch, round, signatures } = result as ReportContext
    for (const each of [configDigest, extraHash, ...signatures.flatMap(({ r, s }) => [r, s])])
      assert(/^0x[0-9a-f]{64}$/.test(each), 'words in lower case')
    assert(epoch <= 0xffff_ffff && round <= 0xff, 'an epoch and a round')
    assert(signatures.length <= 32, 'as many signatures as there is room for')
  },
}

const wholeReports = [0, 3, 8, 13].map(index => published(index).fullReport)

/** One byte is another, or the text is damaged: whatever it is, it is not signed. */
function makeSigned(dice: Dice): string {
  const report = dice.pick(wholeReports)
  if (dice.once(8)) return report
  if (dice.once(4)) return mutateText([report], dice)
  const bytes = Buffer.from(report.slice(2), 'hex')
  bytes[dice.below(bytes.length)] = dice.below(256)
  return `0x${bytes.toString('hex')}`
}

const verifying: Target<string> = {
  ...text('verification of signatures', [], each =>
    verifyReport(each, { signers: publishedSigners }),
  ),
  make: makeSigned,
  share: 0.2,
  check(result, given) {
    if (result === undefined) return
    assert(wholeReports.includes(given.toLowerCase()), 'verified only where nothing was changed')
    assert((result as Verification).signers.length === 2, 'two who signed')
  },
}

const headers = new Headers({ authorization: 'a-secret-key', 'user-agent': 'sluice' })

/** Answers through the REST operations, without a network. */
function answers(): readonly Target<string>[] {
  let body = new Uint8Array()
  let status = 200
  const { rest, fetchPage } = createRest({
    endpoint: 'https://api.example',
    handler: async () => ({ kind: 'request', status, headers: new Headers(), body }),
    plugins: [],
    table: createDecoderTable(allDecoders),
    log: {},
    signal,
  })
  const [first, second, inMilliseconds] = records as [typeof sample, typeof sample, typeof sample]
  const list = (name: string, value: JSONValue, read: (rest: Rest) => Promise<unknown>) =>
    json(name, [value], text => {
      body = encoder.encode(text)
      status = 200
      return read(rest)
    })
  const page = { reports: [{ ...first }, { ...second }] }
  const time = first.observationsTimestamp
  return [
    list('answers: one report', { report: { ...sample } }, each =>
      each.getLatestReport(sample.feedID),
    ),
    list('answers: bulk', { reports: [{ ...first }, { ...inMilliseconds }] }, each =>
      each.getReportsBulk([first.feedID, inMilliseconds.feedID], time),
    ),
    {
      ...json('answers: pages', [page], text => {
        body = encoder.encode(text)
        status = text.length % 16 === 0 ? 206 : 200
        return fetchPage(first.feedID, time, 100, signal)
      }),
      check(result) {
        if (result === undefined) return
        const reports = result as readonly Report[]
        for (const report of reports) checkTimes(report)
        const times = reports.map(report => report.observationsTimestamp)
        assert(
          times.every((each, at) => at === 0 || each >= (times[at - 1] ?? 0)),
          'ascending',
        )
      },
    },
    list(
      'answers: feeds',
      { feeds: [{ feedID: sample.feedID, name: 'ETH/USD', decimals: 18, asset: 'ETH' }] },
      each => each.listFeeds(),
    ),
  ]
}

interface Refused {
  readonly status: number
  readonly headers: readonly (readonly [string, string])[]
  readonly body: string
}

const dates = ['Tue, 14 Nov 2023 22:13:20 GMT', 'Tuesday, 14-Nov-23 22:13:20 GMT', '', '0']
const waits = ['5', '120', '0', '-1', '1e3', '9999999999', '99999999999', ...dates]
const refusals: readonly JSONValue[] = [
  { message: 'too many requests', code: 429 },
  { error: 'unauthorized', detail: 'the key a-secret-key is not known' },
  '<html>502 Bad Gateway</html>',
]
const call = { kind: 'request', method: 'GET', url: 'https://api.example/api/v1/feeds', headers }

const refusal: Target<Refused> = {
  name: 'refusals: status, Date, Retry-After, body',
  isTotal: true,
  make: dice => ({
    status: dice.pick([301, 400, 401, 403, 404, 429, 500, 502, 503, 100 + dice.below(900)]),
    headers: [
      ['retry-after', mutateText(waits, dice)],
      ['date', mutateText(dates, dice)],
    ],
    body: dice.once(3) ? mutateText(['<html>'], dice) : makeJSON(refusals, dice),
  }),
  read({ status, headers: given, body }) {
    const answered = new Headers()
    for (const [name, value] of given) {
      try {
        answered.set(name, value)
      } catch {
        // No header by the platform's rules, so it never comes this far.
      }
    }
    const kind = body.length % 2 === 0 ? 'request' : 'stream'
    const of = { ...call, kind } as unknown as RequestCall | StreamCall
    return errorFromAnswer(of, { status, headers: answered, body: encoder.encode(body) }, now)
  },
  check(result, { status }) {
    assert(isStreamsError(result), 'an error of the library')
    const error = result as Error & { statusCode?: number; retryAfter?: number }
    assert(error.statusCode === status, 'the status')
    assert(error.message.length < 1000, 'a short message')
    assert(/^[\x20-\x7e\n…]*$/.test(error.message), 'a printable message')
    assert(!error.message.includes('a-secret-key'), 'no secret in the message')
    const { retryAfter = 0 } = error
    assert(Number.isFinite(retryAfter) && retryAfter >= 0, 'a wait that is one')
  },
  show: input => JSON.stringify(input),
  sizeOf: ({ body }) => body.length,
}

const headersRead: readonly Target<string>[] = [
  text(
    'the origins header',
    ['{001,002}', '001,002', '{ 001 , 002 }', '{a,b,c,d,e,f,g,h}'],
    parseOrigins,
    {
      check(result) {
        if (result === undefined) return
        const ids = result as readonly string[]
        assert(ids.length >= 1 && ids.length <= 16, 'between one and sixteen')
        assert(new Set(ids).size === ids.length, 'each once')
        // Each becomes a header itself.
        for (const id of ids) assert(/^[A-Za-z0-9._-]{1,64}$/.test(id), 'a harmless id')
      },
    },
  ),
  text('Retry-After', waits, each => parseRetryAfter(each, now), {
    check(result) {
      if (result === undefined) return
      assert(Number.isFinite(result as number) && (result as number) >= 0, 'a wait that is one')
    },
  }),
]

const set = setOf('3of5')
const sealedCase = caseOf(set, 'short')
const publicKey = parsePublicKey(set.public_key_json)
const parsed = (text: string): JSONValue => JSON.parse(text)

/** The outer JSON, and the inner that it holds in base64, mutated apart. */
function makeCiphertext(dice: Dice): string {
  const outer = parsed(sealedCase.ciphertext_json) as { readonly TDH2Ctxt: string }
  if (dice.once(3)) return makeJSON([outer], dice)
  const inner = parsed(Buffer.from(outer.TDH2Ctxt, 'base64').toString())
  const changed = Buffer.from(makeJSON([inner], dice)).toString('base64')
  return JSON.stringify({ ...outer, TDH2Ctxt: changed })
}

const tdh2: readonly Target<string>[] = [
  {
    ...text('TDH2: ciphertexts', [], each => parseCiphertext(publicKey, each)),
    make: makeCiphertext,
    share: 0.1,
  },
  json(
    'TDH2: decryption shares',
    sealedCase.decryption_shares_json.map(parsed),
    parseDecryptionShare,
    {
      check(result) {
        if (result === undefined) return
        const { index } = result as { index: number }
        assert(Number.isSafeInteger(index) && index >= 0, 'an index')
      },
    },
  ),
  json('TDH2: public keys', [parsed(set.public_key_json)], parsePublicKey),
  json('TDH2: private shares', set.private_shares_json.map(parsed), parsePrivateShare),
  json('TDH2: master secrets', [parsed(set.master_secret_json)], parseMasterSecret),
]

const request = {
  vaultDonSecrets: [{ key: 'apiKey', namespace: 'main', owner: 'me' }, { key: 'other' }],
  request: {
    url: 'https://api.example.com/v1/transfers',
    method: 'POST',
    bodyString: '{"to":"{{.account}}"}',
    templatePublicValues: { account: 'acc-42' },
    multiHeaders: { Authorization: { values: ['Bearer {{.apiKey}}'] } },
    customRootCaCertPem: PEM,
    timeout: '3s',
    encryptOutput: true,
  },
}
const message = {
  $typeName: 'capabilities.networking.confidentialhttp.v1alpha.ConfidentialHTTPRequest',
  vaultDonSecrets: [],
  request: {
    url: 'http://api.example.com',
    method: 'GET',
    body: { case: 'bodyBytes', value: 'AAEC' },
    multiHeaders: {},
    timeout: { seconds: '5', nanos: 500_000_000 },
  },
}
const response = {
  statusCode: 200,
  body: 'eyJvayI6dHJ1ZX0=',
  multiHeaders: { 'content-type': { values: ['application/json'] } },
}

/** What reads JSON that others have parsed. */
function parseThen(read: (value: unknown) => unknown): (text: string) => unknown {
  return text => {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      // The text itself is a value as well.
      value = text
    }
    return read(value)
  }
}

const templates = [
  '{"to":"{{.account}}"}',
  'Bearer {{ .apiKey }}',
  'a {{- .a -}} b',
  '{{/* comment */}}x{{- /* y */ -}}',
  '{{.ключ}}',
]
const values: Readonly<Record<string, string>> = { account: 'acc', apiKey: '{{.apiKey}}', a: '' }

const confidential: readonly Target<string>[] = [
  json('confidential requests', [request, message], parseThen(normalizeRequest), {
    check(result) {
      if (result === undefined) return
      const again = normalizeRequest(result)
      assert(toJSON(again) === toJSON(result), 'a normal form that is its own')
      assert(Object.keys(Object.prototype).length === 0, 'no prototype changed')
    },
  }),
  json('confidential responses', [response], parseThen(normalizeResponse)),
  text(
    'durations',
    ['5s', '1.5s', '200ms', '1m', '0.000000001s', '315576000000s', '-3s'],
    each => parseDuration('timeout', each),
    {
      check(result) {
        if (result === undefined) return
        const duration = result as ReturnType<typeof parseDuration>
        const again = parseDuration('timeout', formatDuration(duration))
        assert(again.seconds === duration.seconds && again.nanos === duration.nanos, 'the same')
      },
    },
  ),
  text('templates', templates, each =>
    renderTemplate('bodyString', each, name =>
      Object.hasOwn(values, name) ? values[name] : undefined,
    ),
  ),
  text('base64', ['AAEC', 'AA==', 'AA', '_-8=', 'eyJvayI6dHJ1ZX0='], parseBase64, {
    check(result, given) {
      if (result === undefined) return
      const digits = given.replace(/=+$/, '').replaceAll('-', '+').replaceAll('_', '/')
      const again = Buffer.from(result as Uint8Array)
        .toString('base64')
        .replace(/=+$/, '')
      assert(again === digits, 'one text for the bytes')
    },
  }),
  json(
    'the enclave’s side: envelopes',
    [
      {
        version: 2,
        enclave: 'ef'.repeat(32),
        id: 'ab'.repeat(16),
        issuedAt: NOW,
        replyTo: 'cd'.repeat(32),
        request,
      },
    ],
    each => readEnvelope(each, 'ef'.repeat(32)),
    { isTyped: thrown => thrown instanceof Refusal },
  ),
  json(
    'the caller’s side: answers',
    [
      { id: 'ab'.repeat(16), response },
      {
        id: 'ab'.repeat(16),
        failure: { code: 'VAULT', message: 'no such secret', mayHaveBeenSent: false },
      },
    ],
    each => readAnswer(each, 'ab'.repeat(16), 'enclave.example'),
  ),
  json(
    'the caller’s side: boot keys',
    [{ version: 2, bootKey: 'ab'.repeat(32), upFor: 12.5 }],
    each => readBootKey(each, 'enclave.example'),
  ),
]

async function sealed(): Promise<readonly Target<Uint8Array>[]> {
  const enclave = boxKeys()
  const caller = boxKeys()
  const aesKey = new Uint8Array(32).fill(7)
  const plaintext = encoder.encode(JSON.stringify(response))
  const requests = [sealRequest(JSON.stringify(request), enclave.publicKey, caller)]
  const answered = [sealAnswer(JSON.stringify(response), caller.publicKey, enclave)]
  const boxes = await Promise.all([0, 1].map(() => sealAesGcm(aesKey, plaintext)))
  const target = (
    name: string,
    samples: readonly Uint8Array[],
    read: (bytes: Uint8Array) => unknown,
    share: number,
  ): Target<Uint8Array> => ({
    name,
    make: dice => mutateBytes(samples, dice),
    read,
    share,
    check(result, input) {
      if (result === undefined) return
      const isWhole = samples.some(each => Buffer.compare(each, input) === 0)
      assert(isWhole, 'opened only where nothing was changed')
    },
    ...ofBytes,
  })
  return [
    target('sealed requests', requests, bytes => openRequest(bytes, enclave), 0.1),
    target('sealed answers', answered, bytes => openAnswer(bytes, enclave.publicKey, caller), 0.1),
    target('encrypted bodies', boxes, bytes => openAesGcm(aesKey, bytes), 1),
  ]
}

function cursors(): Target<string> {
  const file = join(mkdtempSync(join(tmpdir(), 'sluice-fuzz-')), 'cursors.json')
  const store = fileCursors(file)
  const saved = Object.fromEntries(feeds.map((feed, at) => [feed, 1_700_000_000 + at]))
  return json(
    'cursor files',
    [saved, {}],
    text => {
      writeFileSync(file, text)
      return store.load()
    },
    {
      check(result) {
        if (result === undefined) return
        for (const [feedID, cursor] of Object.entries(result as object)) {
          assert(/^0x[0-9a-f]{64}$/.test(feedID), 'a feed id in normal form')
          assert(Number.isSafeInteger(cursor) && cursor >= 0, 'a time')
        }
      },
    },
  )
}

/** All targets, by name. */
export async function allTargets(): Promise<ReadonlyMap<string, Target<unknown>>> {
  const targets = [
    frames(),
    decoding,
    contexts,
    verifying,
    ...answers(),
    refusal,
    ...headersRead,
    ...tdh2,
    ...confidential,
    ...(await sealed()),
    cursors(),
  ] as unknown as readonly Target<unknown>[]
  return new Map(targets.map(target => [target.name, target]))
}
