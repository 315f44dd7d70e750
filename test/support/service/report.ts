/** Signed reports: feed ids, the fields of each version, their encoding (by viem) and their JSON. */
import { encodeAbiParameters, type Hex, keccak256 } from 'viem'
import { type Network, type Signing, sign } from './signatures.js'

export type Fields = Readonly<Record<string, bigint | number | string>>

type Field = readonly [name: string, type: string, value: bigint | number | string]

const E18 = 10n ** 18n
const PRICE = 61_234n * E18 + 567_890_123_456_789n
const NANOSECONDS = 1_789_419_599_843_000_000n
const BLOCK_HASH: string = `0x${'b10c'.repeat(16)}`

/** The fields after the common head, with their default values. */
const FIELDS: Readonly<Record<number, readonly Field[]>> = {
  2: [['price', 'int192', PRICE]],
  3: [
    ['price', 'int192', PRICE],
    ['bid', 'int192', PRICE - E18],
    ['ask', 'int192', PRICE + E18],
  ],
  4: [
    ['price', 'int192', PRICE],
    ['marketStatus', 'uint32', 2],
  ],
  5: [
    ['rate', 'int192', E18 / 20n],
    ['timestamp', 'uint32', 1_748_964_317],
    ['duration', 'uint32', 86_400],
  ],
  6: ['price', 'price2', 'price3', 'price4', 'price5'].map(
    (name, i): Field => [name, 'int192', PRICE + BigInt(i) * E18],
  ),
  7: [['exchangeRate', 'int192', E18 + E18 / 7n]],
  8: [
    ['lastUpdateTimestamp', 'uint64', NANOSECONDS],
    ['midPrice', 'int192', PRICE],
    ['marketStatus', 'uint32', 2],
  ],
  9: [
    ['navPerShare', 'int192', 101n * E18],
    ['navDate', 'uint64', 1_748_964_317_000n],
    ['aum', 'int192', 5_000_000n * E18],
    ['ripcord', 'uint32', 0],
  ],
  10: [
    ['lastUpdateTimestamp', 'uint64', NANOSECONDS],
    ['price', 'int192', PRICE],
    ['marketStatus', 'uint32', 2],
    ['currentMultiplier', 'int192', E18],
    ['newMultiplier', 'int192', E18],
    ['activationDateTime', 'uint32', 0],
    ['tokenizedPrice', 'int192', PRICE + 3n * E18],
  ],
  11: [
    ['mid', 'int192', PRICE],
    ['lastSeenTimestampNs', 'uint64', NANOSECONDS],
    ['bid', 'int192', PRICE - E18],
    ['bidVolume', 'int192', 400n * E18],
    ['ask', 'int192', PRICE + E18],
    ['askVolume', 'int192', 300n * E18],
    ['lastTradedPrice', 'int192', PRICE],
    ['marketStatus', 'uint32', 2],
  ],
  12: [
    ['navPerShare', 'int192', 101n * E18],
    ['nextNavPerShare', 'int192', 102n * E18],
    ['navDate', 'uint64', NANOSECONDS],
    ['ripcord', 'uint32', 0],
  ],
  13: [
    ['bestAsk', 'int192', PRICE + E18],
    ['bestBid', 'int192', PRICE - E18],
    ['askVolume', 'uint64', 300n],
    ['bidVolume', 'uint64', 400n],
    ['lastTradedPrice', 'int192', PRICE],
  ],
  14: [
    ['midPrice', 'int192', PRICE],
    ['bidPrice', 'int192', PRICE - E18],
    ['askPrice', 'int192', PRICE + E18],
    ['expiryTime', 'uint64', 1_790_740_800n],
    ['firstDayOfNotice', 'uint64', 1_790_740_800n],
    ['lastSeenTimestampNs', 'uint64', NANOSECONDS],
    ['marketStatus', 'uint32', 2],
    ['contractMonth', 'uint32', 11],
    ['goldmanRollPrice', 'int192', PRICE],
    ['currentBusinessDay', 'uint32', 9],
    ['interpolatedGoldmanRollPrice', 'int192', 0n],
  ],
}

/** Version 1 alone has its own head. */
const V1: readonly Field[] = [
  ['feedID', 'bytes32', ''],
  ['observationsTimestamp', 'uint32', 0],
  ['benchmarkPrice', 'int192', PRICE],
  ['bid', 'int192', PRICE - E18],
  ['ask', 'int192', PRICE + E18],
  ['currentBlockNum', 'uint64', 20_000_000n],
  ['currentBlockHash', 'bytes32', BLOCK_HASH],
  ['validFromBlockNum', 'uint64', 19_999_999n],
  ['currentBlockTimestamp', 'uint64', 1_748_964_317n],
]

/** The id of feed `n` of a version. */
export function feedID(
  version: number,
  n = 1,
  { milliseconds = false }: { readonly milliseconds?: boolean } = {},
): string {
  const prefix = ((milliseconds ? 0x1000 : 0) | version).toString(16).padStart(4, '0')
  return `0x${prefix}${keccak256(`0x${n.toString(16).padStart(8, '0')}`).slice(2, 62)}`
}

export const isMilliseconds = (id: string): boolean => id[2] === '1'

const layouts = new Map<string, readonly Field[]>()

function layoutOf(id: string): readonly Field[] {
  const prefix = id.slice(2, 6).toLowerCase()
  const layout = layouts.get(prefix) ?? makeLayout(id)
  layouts.set(prefix, layout)
  return layout
}

function makeLayout(id: string): readonly Field[] {
  const version = Number.parseInt(id.slice(3, 6), 16)
  if (version === 1) return V1
  const fields = FIELDS[version]
  if (fields === undefined) throw new RangeError(`no report version ${version}`)
  const time = isMilliseconds(id) ? 'uint64' : 'uint32'
  return [
    ['feedID', 'bytes32', ''],
    ['validFromTimestamp', time, 0],
    ['observationsTimestamp', time, 0],
    ['nativeFee', 'uint192', 25_889_085_213_700n],
    ['linkFee', 'uint192', 3_401_052_575_395_900n],
    ['expiresAt', time, 0],
    ...fields,
  ]
}

/** The signed part of a report. A field that the version lacks is an error of the test. */
export function encodeBlob(id: string, fields: Fields): Hex {
  const layout = layoutOf(id)
  for (const name of Object.keys(fields))
    if (!layout.some(field => field[0] === name)) throw new RangeError(`${id} has no ${name}`)
  const values = layout.map(([name, type, value]) => {
    const given = fields[name] ?? value
    return type === 'bytes32' ? given : BigInt(given)
  })
  return encodeAbiParameters(
    layout.map(([, type]) => ({ type })),
    values,
  )
}

const FULL_REPORT = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32'].map(type => ({
  type,
}))

export interface Signatures {
  readonly rs: readonly Hex[]
  readonly ss: readonly Hex[]
  readonly vs: Hex
}

export const encodeFullReport = (
  context: readonly Hex[],
  blob: Hex,
  { rs, ss, vs }: Signatures,
): Hex => encodeAbiParameters(FULL_REPORT, [context, blob, rs, ss, vs])

const word = (value: bigint): Hex => `0x${value.toString(16).padStart(64, '0')}`

/** The content of a report, each field with a default. Times are in the feed's own unit. */
export interface ReportOptions {
  readonly observed?: number
  readonly validFrom?: number
  readonly expiresAt?: number
  /** The version's own fields: `{ price: -5n, bid: 0n }`. Also `nativeFee`, `linkFee`. */
  readonly fields?: Fields
  readonly network?: Network
  /** In place of the network's config digest; it is signed. */
  readonly digest?: string
  readonly sequenceNumber?: number
  readonly signatures?: Signing
  /** Forges the unsigned part: replaces its members, and `undefined` removes one. */
  readonly envelope?: Readonly<Record<string, unknown>>
}

export interface Report {
  /** The feed under which the report is stored and sent, whatever its envelope says. */
  readonly feedID: string
  readonly validFrom: number
  readonly observed: number
  /** `0x` and hex. */
  readonly fullReport: Hex
  /** The JSON object that REST answers and frames contain. */
  readonly json: string
  readonly frame: Buffer
}

export function makeReport(
  id: string,
  options: ReportOptions & {
    observed: number
    validFrom: number
    network: Network
    sequenceNumber: number
  },
): Report {
  const { observed, validFrom, network, sequenceNumber } = options
  let fullReport: Hex | undefined
  let json: string | undefined
  let frame: Buffer | undefined
  const encode = (): Hex => {
    const times =
      layoutOf(id) === V1
        ? { observationsTimestamp: observed }
        : {
            validFromTimestamp: validFrom,
            observationsTimestamp: observed,
            expiresAt: options.expiresAt ?? observed + (isMilliseconds(id) ? 86_400_000 : 86_400),
          }
    const blob = encodeBlob(id, { feedID: id, ...times, ...options.fields })
    const context = [
      (options.digest ?? network.configDigest) as Hex,
      word(BigInt(sequenceNumber)), // epoch ‖ round of a network's report are its sequence number
      word((BigInt(network.donID) << 32n) | 1n),
    ]
    const signing = options.signatures ?? 'valid'
    return encodeFullReport(context, blob, sign(network, context, blob, sequenceNumber, signing))
  }
  return {
    feedID: id,
    validFrom,
    observed,
    get fullReport() {
      fullReport ??= encode()
      return fullReport
    },
    get json() {
      json ??= JSON.stringify({
        feedID: id,
        validFromTimestamp: validFrom,
        observationsTimestamp: observed,
        fullReport: this.fullReport,
        ...options.envelope,
      })
      return json
    },
    get frame() {
      frame ??= Buffer.from(`{"report":${this.json}}`)
      return frame
    },
  }
}
