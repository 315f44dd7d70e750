import type { MessageToProduce } from '@platformatic/kafka'
import type { Candle } from 'sluice/plugins/candles'
import { getReportVersion, type Report, toJSON } from 'sluice/report'

/** A message as it is sent. */
export type Message = MessageToProduce<Buffer, Buffer, Buffer, Buffer>

/** Bytes of a message beside its key, its value and the values of its headers, and some more. */
const FRAME = 80

/**
 * The message of a report. Its key is the feed, so that one partition has all reports of a feed, in
 * their order. `receivedAt` is in milliseconds of Unix time.
 */
export function reportMessage(
  topic: string,
  report: Report,
  receivedAt: number | undefined,
): Message {
  const { feedID, validFromTimestamp, observationsTimestamp, fullReport, source, originID } = report
  const { decoded } = report.toJSON()
  const times = { validFromTimestamp, observationsTimestamp }
  const value = { feedID, ...times, fullReport, source, originID, receivedAt, decoded }
  return messageOf(topic, feedID, value, {
    'sluice-id': `${feedID}:${observationsTimestamp}`,
    'sluice-version': getReportVersion(feedID),
  })
}

/** The message of a candle. Each revision of a candle is a message. */
export function candleMessage(topic: string, candle: Candle): Message {
  const { feedID, interval, start, revision } = candle
  return messageOf(topic, feedID, toJSON(candle), {
    'sluice-id': `${feedID}:${interval}:${start}:${revision}`,
    'sluice-version': getReportVersion(feedID),
  })
}

function messageOf(
  topic: string,
  key: string,
  value: object,
  headers: Readonly<Record<string, string>>,
): Message {
  return {
    topic,
    key: Buffer.from(key),
    value: Buffer.from(JSON.stringify(value)),
    headers: new Map(
      Object.entries(headers).map(([name, text]) => [Buffer.from(name), Buffer.from(text)]),
    ),
  }
}

/** The bytes of a message in a request, uncompressed. */
export function sizeOf({ key, value, headers }: Message): number {
  let size = FRAME + (key?.length ?? 0) + (value?.length ?? 0)
  for (const [name, text] of headers as Map<Buffer, Buffer>) size += name.length + text.length
  return size
}
