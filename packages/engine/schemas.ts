/** The Solidity types that occur in a report blob. */
export type FieldType = 'bytes32' | 'int192' | 'uint192' | 'uint64' | 'uint32'

/** One field of a report blob. */
export interface Field {
  readonly name: string
  readonly type: FieldType
}

/** The unit of a feed's timestamps: seconds, or milliseconds when the top nibble of its id is 1. */
export type Resolution = 's' | 'ms'

// The fields after the common head, per report version.
const tails: Readonly<Record<number, string>> = {
  2: 'int192 price',
  3: 'int192 price, int192 bid, int192 ask',
  4: 'int192 price, uint32 marketStatus',
  5: 'int192 rate, uint32 timestamp, uint32 duration',
  6: 'int192 price, int192 price2, int192 price3, int192 price4, int192 price5',
  7: 'int192 exchangeRate',
  8: 'uint64 lastUpdateTimestamp, int192 midPrice, uint32 marketStatus',
  9: 'int192 navPerShare, uint64 navDate, int192 aum, uint32 ripcord',
  10: 'uint64 lastUpdateTimestamp, int192 price, uint32 marketStatus, int192 currentMultiplier, int192 newMultiplier, uint32 activationDateTime, int192 tokenizedPrice',
  11: 'int192 mid, uint64 lastSeenTimestampNs, int192 bid, int192 bidVolume, int192 ask, int192 askVolume, int192 lastTradedPrice, uint32 marketStatus',
  12: 'int192 navPerShare, int192 nextNavPerShare, uint64 navDate, uint32 ripcord',
  13: 'int192 bestAsk, int192 bestBid, uint64 askVolume, uint64 bidVolume, int192 lastTradedPrice',
  14: 'int192 midPrice, int192 bidPrice, int192 askPrice, uint64 expiryTime, uint64 firstDayOfNotice, uint64 lastSeenTimestampNs, uint32 marketStatus, uint32 contractMonth, int192 goldmanRollPrice, uint32 currentBusinessDay, int192 interpolatedGoldmanRollPrice',
}

function fieldsOf(signature: string): readonly Field[] {
  return signature.split(', ').map(declaration => {
    const [type, name] = declaration.split(' ') as [FieldType, string]
    return { name, type }
  })
}

function schema(time: FieldType, tail: string): readonly Field[] {
  return fieldsOf(
    `bytes32 feedId, ${time} validFromTimestamp, ${time} observationsTimestamp, uint192 nativeFee, uint192 linkFee, ${time} expiresAt, ${tail}`,
  )
}

const schemas = new Map<string, readonly Field[]>()
for (const [version, tail] of Object.entries(tails)) {
  schemas.set(`${version} s`, schema('uint32', tail))
  schemas.set(`${version} ms`, schema('uint64', tail))
}

/** The fields of a report blob in order, or undefined when the version isn't known. */
export function reportSchema(
  version: number,
  resolution: Resolution,
): readonly Field[] | undefined {
  return schemas.get(`${version} ${resolution}`)
}
