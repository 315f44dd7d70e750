import { type DecodedReport, formatPrice, type Stream } from 'sluice'

/** Prints a line for each report of a stream, until the stream is closed. */
export async function printPrices(
  stream: Stream<DecodedReport>,
  print: (line: string) => void,
): Promise<void> {
  for await (const { observationsTimestamp, decoded } of stream) {
    if (decoded.version !== 'V3') continue
    const time = new Date(observationsTimestamp * 1000).toISOString()
    print(`${time} ${formatPrice(decoded.price, 18, { digits: 2 })}`)
  }
}
