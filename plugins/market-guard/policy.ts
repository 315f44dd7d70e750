import { ValidationError } from '../../core/errors.js'
import {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkObject,
  kindOf,
  number,
  oneOf,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../../core/options.js'
import { feedVersion, parseFeedID } from '../../report/feed-id.js'
import { type HoursModel, hoursModels } from './hours.js'

/** The limits of a feed. Times are in milliseconds, and shares are parts of 1: 0.05 is 5 %. */
export interface MarketPolicy {
  /**
   * From this age on, the value is stale while its market is open. The service's documentation has
   * five minutes in an example, and no other number. @default 300000
   */
  readonly maxAge?: number
  /**
   * From this age on, a top-of-book value is stale. From `maxAge` to this age it is `quiet`, since
   * one venue may rest. Our choice. @default 3600000
   */
  readonly maxQuiet?: number
  /**
   * By how much the feed is known to be late, such as 15 minutes of UK funds. The value may be
   * older by it, and calls for caution. Nothing in a report shows it. @default 0
   */
  readonly delay?: number
  /**
   * Which prices are allowed. Our choice: a price of zero or below is a fault.
   * @default 'positive', and 'any' for the rates of version 5
   */
  readonly values?: 'positive' | 'not-negative' | 'any'
  /** The greatest spread: (ask − bid) / mid. Our choice. @default 0.05 */
  readonly maxSpread?: number
  /**
   * The greatest distance of a price from the last accepted price, as a share of it. Our choice:
   * the documentation says that a new session may move a price by 10 to 20 %.
   * @default 0.25, and Infinity for the rates of version 5
   */
  readonly maxDeviation?: number
  /**
   * A price that has jumped is accepted after it has kept its new level for so long. `Infinity`
   * waits for `accept`. Our choice. @default 300000
   */
  readonly jumpTime?: number
  /** For how long a market counts as just opened. Our choice. @default 60000 */
  readonly openingTime?: number
  /**
   * What a change of session asks for. The documentation leaves it to you. @default 'caution'
   */
  readonly sessionChange?: 'caution' | 'pause'
  /** For how long the caution or the pause after a change of session lasts. Our choice.
   * @default 60000 */
  readonly sessionTime?: number
  /** For how long a contract counts as just rolled. Our choice. @default 3600000 */
  readonly rollTime?: number
  /**
   * In so many reports in a row the time of the value may be back before it calls for caution. Our
   * choice. @default 3
   */
  readonly timeBackReports?: number
  /**
   * After a change of the multiplier (version 10), price × multiplier must be this near to its
   * value before. Our choice. @default 0.05
   */
  readonly multiplierTolerance?: number
  /** How long before its activation a staged multiplier ends trading. Our choice.
   * @default 900000 */
  readonly activationLead?: number
  /** How long before `expiresAt` a report counts as expired. Our choice. @default 0 */
  readonly expirySlack?: number
  /** How long before a feed retires to call for caution. Our choice. @default 2592000000 */
  readonly decommissionLead?: number
  /**
   * Whether you trade by `tokenizedPrice` of version 10, which goes on while the market is closed.
   * @default false
   */
  readonly tokenized?: boolean
  /** The statuses that are open, in place of those of the hours model. @default the model's */
  readonly openStatus?: readonly number[]
}

/** Options of `marketGuard`. The policy of all feeds is among them. */
export interface MarketGuardOptions extends MarketPolicy {
  /** Keeps reports of a stream from you that are not tradable. @default false */
  readonly drop?: boolean
  /** Policies of single feeds, by feed id. They add to the policy of all feeds. @default none */
  readonly feeds?: Readonly<Record<string, MarketPolicy>>
  /** The hours models of feeds of version 11, by feed id. @default what the catalogue says */
  readonly hours?: Readonly<Record<string, HoursModel>>
  /** Whether to ask the service's catalogue for hours and dates of retirement. @default true */
  readonly catalogue?: boolean
  /**
   * Explains the hours of a feed at a time, in milliseconds of Unix time: `'Thanksgiving'`. The
   * guard puts the text into the reason, and decides nothing by it. @default none
   */
  readonly calendar?: (feedID: string, time: number) => string | undefined
}

const limit = optional(number({ min: 0, infinite: true }))

const policyRules = {
  maxAge: limit,
  maxQuiet: limit,
  delay: limit,
  values: optional(oneOf('positive', 'not-negative', 'any')),
  maxSpread: limit,
  maxDeviation: limit,
  jumpTime: limit,
  openingTime: limit,
  sessionChange: optional(oneOf('caution', 'pause')),
  sessionTime: limit,
  rollTime: limit,
  timeBackReports: optional(number({ min: 1, whole: true, infinite: true })),
  multiplierTolerance: limit,
  activationLead: limit,
  expirySlack: limit,
  decommissionLead: limit,
  tokenized: optional(checkBoolean),
  openStatus: optional(checkStatuses),
} satisfies Schema<MarketPolicy>

const rules = {
  ...policyRules,
  drop: withDefault(false, checkBoolean),
  feeds: withDefault(
    {},
    byFeed((field, value) => readOptions(field, value as MarketPolicy, policyRules, `${field}.`)),
  ),
  hours: withDefault({}, byFeed(oneOf(...(Object.keys(hoursModels) as HoursModel[])))),
  catalogue: withDefault(true, checkBoolean),
  calendar: optional(checkFunction<NonNullable<MarketGuardOptions['calendar']>>),
} satisfies Schema<MarketGuardOptions>

function checkStatuses(field: string, value: unknown): readonly number[] {
  if (!Array.isArray(value))
    throw new ValidationError(`${field} must be an array of statuses, not ${kindOf(value)}`)
  return value.map((each, index) =>
    checkNumber(`${field}[${index}]`, each, { min: 0, max: 2 ** 32 - 1, whole: true }),
  )
}

/** The rule of an object with one value for each of some feeds. */
function byFeed<Value>(rule: (field: string, value: unknown) => Value) {
  return (field: string, value: unknown): Readonly<Record<string, Value>> => {
    const entries = Object.entries(checkObject(field, value as object))
    return Object.fromEntries(
      entries.map(([id, each]) => [
        parseFeedID(id, `a key of ${field}`),
        rule(`${field}[${id}]`, each),
      ]),
    )
  }
}

/** A policy with a value for each limit. */
export type Policy = Required<Omit<MarketPolicy, 'openStatus'>> & Pick<MarketPolicy, 'openStatus'>

const defaults: Policy = {
  maxAge: 300_000,
  maxQuiet: 3_600_000,
  delay: 0,
  values: 'positive',
  maxSpread: 0.05,
  maxDeviation: 0.25,
  jumpTime: 300_000,
  openingTime: 60_000,
  sessionChange: 'caution',
  sessionTime: 60_000,
  rollTime: 3_600_000,
  timeBackReports: 3,
  multiplierTolerance: 0.05,
  activationLead: 900_000,
  expirySlack: 0,
  decommissionLead: 2_592_000_000,
  tokenized: false,
}

/** A rate may be negative, and near zero its relative changes mean nothing. */
const defaultsOfRates: MarketPolicy = { values: 'any', maxDeviation: Number.POSITIVE_INFINITY }

/** The checked options of a guard. */
export interface GuardSettings {
  readonly drop: boolean
  readonly hours: Readonly<Record<string, HoursModel>>
  readonly catalogue: boolean
  readonly calendar?: MarketGuardOptions['calendar']
  /** The policy of a feed. */
  policyOf(feedID: string): Policy
}

/** Checks the options. Throws a ValidationError that names the field and the rule. */
export function readSettings(options: MarketGuardOptions | undefined): GuardSettings {
  const { drop, hours, catalogue, calendar, feeds, ...all } = readOptions(
    'marketGuard',
    options,
    rules,
  )
  return {
    ...{ drop, hours, catalogue },
    ...(calendar && { calendar }),
    policyOf: feedID => ({
      ...defaults,
      ...(feedVersion(feedID) === 5 && defaultsOfRates),
      ...all,
      ...feeds[feedID],
    }),
  }
}
