/** Why a feed may be traded, or why not. */
export type MarketReason =
  | 'retired'
  | 'no-report'
  | 'undecodable'
  | 'unknown-schema'
  | 'ripcord'
  | 'closed'
  | 'unknown'
  | 'unexpected-status'
  | 'unmapped-status'
  | 'other-session'
  | 'action-near'
  | 'multiplier-changed'
  | 'stale-after-open'
  | 'expired'
  | 'stale'
  | 'bad-value'
  | 'crossed'
  | 'wide-spread'
  | 'jump'
  | 'session-pause'
  | 'off-hours'
  | 'always-open'
  | 'hours-unknown'
  | 'contract-rolled'
  | 'carry-over'
  | 'just-opened'
  | 'session-change'
  | 'quiet'
  | 'delayed'
  | 'time-stays-back'
  | 'action-staged'
  | 'retiring'
  | 'time-back'
  | 'open'

/** What a reason means for a feed. */
export interface ReasonFacts {
  /** Whether the feed may be traded. */
  readonly tradable: boolean
  /** Whether to trade with care: with wider limits, or less. */
  readonly caution: boolean
  /** The reason in words. */
  readonly text: string
}

const no = (text: string): ReasonFacts => Object.freeze({ tradable: false, caution: false, text })
const care = (text: string): ReasonFacts => Object.freeze({ tradable: true, caution: true, text })
const yes = (text: string): ReasonFacts => Object.freeze({ tradable: true, caution: false, text })

/** All reasons. If several hold, the first of this table counts. */
export const marketReasons: Readonly<Record<MarketReason, ReasonFacts>> = Object.freeze({
  retired: no('the catalogue says that the feed has retired'),
  'no-report': no('no report has come yet'),
  undecodable: no('the newest report could not be decoded'),
  'unknown-schema': no('the guard does not know reports of this version'),
  ripcord: no('the ripcord is pulled: the values must not be used'),
  closed: no('the market is closed'),
  unknown: no('the status of the market is unknown'),
  'unexpected-status': no('the status has no meaning on this feed'),
  'unmapped-status': no('each feed has its own meaning of this status: set openStatus'),
  'other-session': no('the session belongs to another stream of the asset'),
  'action-near': no('a corporate action is about to take effect'),
  'multiplier-changed': no('the multiplier changed, and the price has not followed'),
  'stale-after-open': no('the market opened, and its price is still that of the close'),
  expired: no('the newest report has expired'),
  stale: no('the value is too old: an outage, or a halt'),
  'bad-value': no('a price is zero, negative or no number'),
  crossed: no('the bid is above the ask'),
  'wide-spread': no('bid and ask are too far apart'),
  jump: no('the price is too far from the last accepted price'),
  'session-pause': no('a session has begun, and the pause after it is not over'),
  'off-hours': care('the market is closed, and the token is traded'),
  'always-open': care('the feed runs around the clock, and its status does not show off-hours'),
  'hours-unknown': care('the hours of the feed are unknown, and only status 2 counts as open'),
  'contract-rolled': care('the feed has rolled to another contract'),
  'carry-over': care('bid and ask are still those of the session before'),
  'just-opened': care('the market has just opened'),
  'session-change': care('a session has just begun'),
  quiet: care('the order book has not changed for long'),
  delayed: care('the feed is known to be late'),
  'time-stays-back': care('the time of the value went back, and stays back'),
  'action-staged': care('a corporate action is staged'),
  retiring: care('the feed is going to retire'),
  'time-back': yes('the time of the value went back once, which is normal'),
  open: yes('nothing speaks against trading'),
})
