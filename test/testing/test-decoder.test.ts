import { describe, expect, test } from '@jest/globals'
import { allDecoders, type Decoder, defineDecoder } from '../../index.js'
import type { Blob } from '../../report/full-report.js'
import { ReportDecodingError } from '../../report/full-report.js'
import type { ConformanceError } from '../../testing/faults.js'
import { sampleReport } from '../../testing/reports.js'
import { type DecoderSample, testDecoder } from '../../testing/test-decoder.js'
import { failureOf } from '../support/waiting.js'
import { documentedRules } from './documented-rules.js'

const idOf = (version: number, unit = 0): string =>
  `0x${unit}${version.toString(16).padStart(3, '0')}${'ab'.repeat(30)}`

/** A sample of each unit. */
function samplesOf(version: number, values?: readonly (bigint | number)[]): DecoderSample[] {
  return [0, 1].map(unit => {
    const feedID = idOf(version, unit)
    const observationsTimestamp = unit === 0 ? 1_700_000_000 : 1_700_000_000_123
    return sampleReport({ feedID, observationsTimestamp, ...(values && { values }) })
  })
}

/** A sample of a version with a price and a text. */
function textSample(text: string): DecoderSample {
  const bytes = Buffer.alloc(32 * Math.ceil(text.length / 32))
  bytes.write(text)
  const words = bytes.toString('hex').match(/.{64}/g) ?? []
  const values = [5n, 256n, BigInt(text.length), ...words.map(word => BigInt(`0x${word}`))]
  const { feedID, fullReport } = sampleReport({
    feedID: idOf(42),
    observationsTimestamp: 1_700_000_000,
    values,
  })
  return { feedID, fullReport, fields: { price: 5n, venue: text } }
}

describe('decoders without a fault', () => {
  // The others, with published reports, are in the full tier.
  test.each(allDecoders.filter(({ version }) => version === 7))('V$version', async decoder => {
    const { blobs } = await testDecoder(decoder, { samples: samplesOf(decoder.version) })
    expect(blobs).toBeGreaterThan(1000)
  })

  test('a schema with a text', async () => {
    const v42 = defineDecoder({ version: 42, fields: { price: 'int192', venue: 'string' } })
    await testDecoder(v42, { samples: ['', 'a venue '.repeat(5)].map(textSample) })
  })

  test('a schema with every kind of type', async () => {
    const v43 = defineDecoder({
      version: 43,
      fields: {
        price: 'int192',
        small: 'int24',
        big: 'uint256',
        at: 'uint64-twin',
        halted: 'bool',
        by: 'address',
        tag: 'bytes4',
      },
    })
    const tag = 0xdead_beefn << 224n
    const values = [5n, -7n, 1n << 255n, (1n << 60n) + 1n, 1n, 0xabcn, tag]
    const [seconds] = samplesOf(43, values) as [DecoderSample]
    const fields = {
      small: -7,
      big: 1n << 255n,
      at: 2 ** 60,
      atRaw: (1n << 60n) + 1n,
      halted: true,
      by: `0x${'abc'.padStart(40, '0')}`,
      tag: '0xdeadbeef',
    }
    await testDecoder(v43, { samples: [{ ...seconds, fields }] })
  })

  test('one that was written by hand', async () => {
    await testDecoder({ version: 2, decode }, { samples: samplesOf(2) })
  })
})

const time = (view: DataView, at: number): number => Number(view.getBigUint64(at + 24))

function readWord(view: DataView, at: number): bigint {
  const part = (index: number): bigint => view.getBigUint64(at + 8 * index)
  const high = (view.getBigInt64(at) << 64n) | part(1)
  return (high << 128n) | (part(2) << 64n) | part(3)
}

interface Price {
  version: string
  feedID: string
  validFromTimestamp: number
  observationsTimestamp: number
  nativeFee: bigint
  linkFee: bigint
  expiresAt: number
  price: bigint
}

/** Reads a report of version 2 as an author without `defineDecoder` would. */
function decode({ feedID, view, length }: Blob): Price {
  if (length !== 224) throw new ReportDecodingError(`a report of ${feedID} has ${length} bytes`)
  return {
    version: 'V2',
    feedID,
    validFromTimestamp: time(view, 32),
    observationsTimestamp: time(view, 64),
    nativeFee: readWord(view, 96),
    linkFee: readWord(view, 128),
    expiresAt: time(view, 160),
    price: readWord(view, 192),
  }
}

/** The same report, only changed. */
const changed =
  (change: (report: Price, blob: Blob) => object) =>
  (blob: Blob): object =>
    change(decode(blob), blob)

const reused = {}
let last: Price | undefined
const known = new Map<string, Price>()
let count = 0

const faulty: readonly (readonly [string, string, (blob: Blob) => unknown])[] = [
  ['stateless', 'counts', changed(report => ({ ...report, count: count++ }))],
  [
    'independent stateless',
    'remembers a report by its feed',
    blob => {
      const report = known.get(blob.feedID) ?? decode(blob)
      known.set(blob.feedID, report)
      return report
    },
  ],
  ['independent', 'fills one object', changed(report => Object.assign(reused, report))],
  [
    'independent',
    'gives the same object for the same price and fee',
    changed(report => {
      if (last?.nativeFee !== report.nativeFee || last?.feedID !== report.feedID) last = report
      return last
    }),
  ],
  [
    'unchanged',
    'writes to the blob',
    changed((report, { view }) => {
      view.setUint8(0, 1)
      return report
    }),
  ],
  [
    'unchanged',
    'changes the feed id of the blob',
    changed((report, blob) => Object.assign(blob, { feedID: 'x' }) && report),
  ],
  [
    'reference',
    'reads the price when it is asked for',
    changed((report, { view }) => ({
      ...report,
      get price() {
        return readWord(view, 192)
      },
    })),
  ],
  [
    'json reference',
    'keeps the bytes',
    changed((report, { view }) => ({
      ...report,
      raw: new Uint8Array(view.buffer, view.byteOffset, 32),
    })),
  ],
  [
    'offset',
    'takes the buffer for the blob',
    blob => decode({ ...blob, view: new DataView(blob.view.buffer) }),
  ],
  ['end', 'does not look at the length', blob => decode({ ...blob, length: 224 })],
  [
    'end',
    'decodes what follows',
    changed((report, { view }) => ({ ...report, next: view.getUint8(224) })),
  ],
  [
    'errors',
    'throws an error of its own',
    blob => {
      if (blob.length !== 224) throw new RangeError('length')
      return decode(blob)
    },
  ],
  [
    'errors',
    'makes a text as long as a word says',
    changed((report, { view }) => ({
      ...report,
      digits: '0'.repeat(view.getInt32(220)).length,
    })),
  ],
  [
    'time',
    'counts up to a word',
    changed((report, { view }) => {
      let sum = 0
      for (let at = 0; at < view.getUint32(220); at++) sum += at & 1
      return { ...report, isOdd: sum < 0 }
    }),
  ],
  ['synchronous', 'is asynchronous', async blob => decode(blob)],
  [
    'decodes',
    'rejects every report',
    () => {
      throw new ReportDecodingError('no')
    },
  ],
  ['decodes', 'returns a list', blob => [decode(blob)]],
  ['decodes', 'returns nothing', () => undefined],
  [
    'exact',
    'makes a number of the price',
    changed(report => ({ ...report, price: Number(report.price) })),
  ],
  [
    'exact',
    'divides the price',
    changed(report => ({ ...report, price: Number(report.price) / 1e18 })),
  ],
  ['head', 'has no expiresAt', changed(({ expiresAt, ...report }) => report)],
  [
    'head',
    'has fees of numbers',
    changed(report => ({ ...report, linkFee: Number(report.linkFee) })),
  ],
  [
    'head',
    'has an id in upper case',
    changed(report => ({ ...report, feedID: report.feedID.toUpperCase() })),
  ],
  ['head', 'has a version of its own', changed(report => ({ ...report, version: 2 }))],
  [
    'head',
    'reads times of 32 bits',
    changed((report, { view }) => ({ ...report, expiresAt: view.getUint32(188) })),
  ],
  ['json', 'has a Map', changed(report => ({ ...report, levels: new Map([[1n, report.price]]) }))],
  ['json', 'refers to itself', changed(report => Object.assign(report, { report }))],
  ['json', 'has what is no number', changed(report => ({ ...report, mean: Number.NaN }))],
  [
    'json',
    'writes bigints by itself',
    changed(report => ({ ...report, toJSON: () => ({ price: report.price }) })),
  ],
]

async function faultsOf(decoder: Decoder, samples: readonly DecoderSample[]): Promise<string[]> {
  const error = await failureOf(testDecoder(decoder, { samples }))
  expect(error).toMatchObject({ name: 'ConformanceError', code: 'CONFORMANCE' })
  return (error as unknown as ConformanceError).faults.map(({ rule }) => rule)
}

describe('a fault is found', () => {
  test.each(faulty)('%s: a decoder that %s', async (rule, _name, wrong) => {
    // The samples in seconds alone: milliseconds are made of them.
    const rules = await faultsOf({ version: 2, decode: wrong }, samplesOf(2, [5n]).slice(0, 1))
    expect(rules).toEqual(rule.split(' '))
  })

  test('version: samples of another version', async () => {
    expect(await faultsOf({ version: 3, decode }, samplesOf(2))).toEqual(['version'])
  })

  test('fields: a value that is not the expected one', async () => {
    const [sample] = samplesOf(2) as [DecoderSample]
    const wrong = { ...sample, fields: { price: 1 } }
    const error = await failureOf(testDecoder({ version: 2, decode }, { samples: [wrong] }))
    expect(error.message).toMatch(
      /^decoder V2 broke a rule:\n {2}fields: price is \d+n, not 1 \(samples\[0\]\)$/,
    )
    const missing = { ...sample, fields: { bid: undefined } }
    await testDecoder({ version: 2, decode }, { samples: [missing] })
  })

  test.each([
    [undefined],
    [{}],
    [{ version: 2 }],
    [{ version: 1, decode }],
    [{ version: '2', decode }],
  ])('shape: %p', async decoder => {
    expect(await faultsOf(decoder as never, samplesOf(2))).toEqual(['shape'])
  })
})

describe('options', () => {
  const [sample] = samplesOf(2) as [DecoderSample]
  test.each([
    [undefined, 'samples must be a list of reports, not undefined'],
    [{ samples: [] }, 'samples must hold at least one report'],
    [{ sample }, "unknown option 'sample' of testDecoder; did you mean 'samples'?"],
    [{ samples: [{ ...sample, feedID: '0x' }] }, 'samples[0].feedID must be 0x and 64'],
    [{ samples: [{ ...sample, field: {} }] }, "unknown option 'field' of samples[0]"],
    [{ samples: [{ ...sample, fields: [] }] }, 'samples[0].fields must be an object'],
    [{ samples: [{ ...sample, fullReport: 5 }] }, 'samples[0].fullReport must be a string'],
    [
      { samples: [sample, { ...sample, fullReport: '0x00' }] },
      /samples\[1\]\.fullReport must be a report: .* not whole words/,
    ],
  ])('%p', async (options, message) => {
    const error = await failureOf(testDecoder({ version: 2, decode }, options as never))
    expect(error).toMatchObject({ code: 'VALIDATION' })
    expect(error.message).toMatch(message)
  })
})

test('every rule of the docs has a fault that breaks it', () => {
  const planted = faulty.flatMap(([rules]) => rules.split(' '))
  expect(documentedRules('A decoder')).toEqual(
    [...new Set([...planted, ...['version', 'fields', 'shape']])].sort(),
  )
})
