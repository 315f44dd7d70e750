/**
 * Endpoints that the service has, and does not document. They may change or go at any time, and are
 * outside semantic versioning.
 */
import { checkNumber, checkSignal, optional, readOptions, type Schema } from '../core/options.js'
import { TextDecoder } from '../platform/globals.js'
import { isFeedID, parseFeedID } from '../report/feed-id.js'
import type { Client } from './client.js'
import { APIError } from './contract/errors.js'
import type { RequestOptions } from './rest.js'

/** Options of `getTwap`. */
export interface BetaTwapOptions extends RequestOptions {
  /** The length of the window, in seconds. */
  readonly window: number
  /** The end of the window, in seconds of Unix time. @default the service's present */
  readonly end?: number
}

/**
 * An average that the service computed. Nobody has signed it: it is as trustworthy as the service
 * and the way to it. `twap` of `sluice/proof` computes an average from signed reports.
 */
export interface UnsignedTwap {
  /** Always false. */
  readonly isSigned: false
  /** In lower case. */
  readonly feedID: string
  /** The average, an exact integer in the unit of the price. */
  readonly value: bigint
  /** The number of decimals of the value, if the service says it. */
  readonly decimals: number | undefined
  /** The number of reports that the average is of. */
  readonly samples: number
  /** The window, in seconds of Unix time, as the service understood it. */
  readonly window: TwapWindow | undefined
  /** The part of the window for which the service had reports. */
  readonly effectiveWindow: TwapWindow | undefined
}

/** A range of time, in seconds of Unix time. */
export interface TwapWindow {
  /** The start. */
  readonly from: number
  /** The end. */
  readonly to: number
}

const schema = {
  window: (field, value) => checkNumber(field, value, { min: 1, max: 86_400 * 366, whole: true }),
  end: optional((field, value) =>
    checkNumber(field, value, { min: 0, max: 0xffff_ffff, whole: true }),
  ),
  signal: checkSignal,
} satisfies Schema<BetaTwapOptions>

/** Asks the service for the time-weighted average price of a feed. The answer is not signed. */
export async function getTwap(
  client: Pick<Client, 'request'>,
  id: string,
  options: BetaTwapOptions,
): Promise<UnsignedTwap> {
  const feedID = parseFeedID(id)
  const { window, end, signal } = readOptions('getTwap', options, schema)
  const request = {
    feedId: feedID,
    windowSeconds: window,
    ...(end !== undefined && { endTs: end }),
  }
  const { body, status } = await client.request('POST', '/api/v1/twap', {
    body: JSON.stringify(request),
    ...(signal && { signal }),
  })
  return readTwap(feedID, body, status)
}

function readTwap(feedID: string, body: Uint8Array, statusCode: number): UnsignedTwap {
  function refuse(rule: string): never {
    throw new APIError(`the service answered getTwap in another format than expected: ${rule}`, {
      code: 'API_RESPONSE',
      statusCode,
    })
  }
  let answer: unknown
  try {
    answer = JSON.parse(new TextDecoder().decode(body))
  } catch {
    refuse('its body is not JSON')
  }
  const { result, feedId, samples, decimals, ...times } = (answer ?? {}) as Readonly<
    Record<string, unknown>
  >
  if (typeof result !== 'string' || !/^-?\d{1,80}$/.test(result))
    refuse('result must be a whole number as decimal text')
  if (!Number.isSafeInteger(samples) || Number(samples) < 0)
    refuse('samples must be a whole number from 0 on')
  if (isFeedID(feedId) && feedId.toLowerCase() !== feedID) refuse(`it is of feed ${feedId}`)
  const windowOf = (from: string, to: string): TwapWindow | undefined => {
    const [start, end] = [times[from], times[to]]
    return typeof start === 'number' && typeof end === 'number'
      ? { from: start, to: end }
      : undefined
  }
  return {
    isSigned: false,
    feedID,
    value: BigInt(result),
    decimals: Number.isInteger(decimals) ? Number(decimals) : undefined,
    samples: Number(samples),
    window: windowOf('windowStartTs', 'windowEndTs'),
    effectiveWindow: windowOf('effectiveWindowStartTs', 'effectiveWindowEndTs'),
  }
}
