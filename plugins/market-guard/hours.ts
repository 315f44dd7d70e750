import type { PluginClient } from '../../client/contract/scope.js'
import type { MarketReason } from './reasons.js'

/** A feed in the service's catalogue. */
export type CatalogueEntry = Awaited<ReturnType<PluginClient['discover']>>[number]

/**
 * What the status of a report of version 11 means.
 *
 * - `standard`: 2 is open, 5 is closed. Standard US equities, and APAC equities.
 * - `24/5`: 1 to 4 are the sessions of one stream.
 * - `24/5-regular`, `24/5-extended`, `24/5-overnight`: streams of one session (2; 1 and 3; 4).
 * - `24/7`: the price never rests, so only 0 stops it.
 * - `top-of-book`: one venue. Each feed has its own meanings, which `openStatus` gives.
 */
export type HoursModel =
  | 'standard'
  | '24/5'
  | '24/5-regular'
  | '24/5-extended'
  | '24/5-overnight'
  | '24/7'
  | 'top-of-book'

/** What each status means, by its number. */
type Meanings = readonly MarketReason[]

const [none, other, odd] = ['unmapped-status', 'other-session', 'unexpected-status'] as const

/** The meanings of the statuses of version 11. */
export const hoursModels: Readonly<Record<HoursModel, Meanings>> = {
  standard: ['unknown', odd, 'open', odd, odd, 'closed'],
  '24/5': ['unknown', 'open', 'open', 'open', 'open', 'closed'],
  '24/5-regular': ['unknown', other, 'open', other, other, 'closed'],
  '24/5-extended': ['unknown', 'open', other, 'open', other, 'closed'],
  '24/5-overnight': ['unknown', other, other, other, 'open', 'closed'],
  '24/7': ['unknown', ...new Array<MarketReason>(5).fill('always-open')],
  'top-of-book': ['unknown', none, none, none, none, none],
}

/** Without a model, only the status counts that is open in most models. */
const withoutModel: Meanings = ['unknown', odd, 'hours-unknown', odd, odd, 'closed']
/** The meanings of the statuses of versions 4, 8, 10 and 14. */
const ofOthers: Meanings = ['unknown', 'closed', 'open']

/** The model that the catalogue names. Undefined if it names none that is known. */
export function hoursOf({
  name,
  attributeType,
  marketHours,
}: CatalogueEntry): HoursModel | undefined {
  const kind = `${attributeType} ${name}`
  const schedule = `${marketHours} ${name}`
  if (/24[/x-]7/i.test(schedule)) return '24/7'
  if (/top-?of-?book/i.test(kind)) return 'top-of-book'
  if (/overnight/i.test(kind)) return '24/5-overnight'
  if (/extended/i.test(kind)) return '24/5-extended'
  if (/regular/i.test(kind)) return '24/5-regular'
  if (!/equity/i.test(kind)) return undefined
  return /24[/x-]5/i.test(schedule) ? '24/5' : 'standard'
}

/** What the status of a report means for its feed: `open`, or a reason. */
export function meaningOf(
  version: number,
  status: number,
  model: HoursModel | undefined,
  openStatus: readonly number[] | undefined,
): MarketReason {
  const meanings =
    version !== 11 ? ofOthers : model === undefined ? withoutModel : hoursModels[model]
  const meaning = meanings[status] ?? odd
  if (openStatus === undefined) return meaning
  if (openStatus.includes(status)) return 'open'
  return meaning === 'open' || meaning === none || meaning === 'hours-unknown' ? 'closed' : meaning
}
