import { DataStreamsError } from '../core/errors.js'
import type { TimeRange, WindowEnds } from './windows.js'

/** The most reports of a proof. At one report a second, these are two hours and 46 minutes. */
export const MAX_REPORTS = 10_000
/** The most characters of a proof as text. */
export const MAX_CHARACTERS = 33_554_432

/** The price at a moment. */
export interface PriceClaim {
  /** Distinguishes the claim from others. */
  readonly kind: 'price'
  /** The moment, in the feed's unit. */
  readonly at: number
  /** The field of the report that is the price. */
  readonly field: string
  /** The price, an integer as decimal text; null if no report holds the moment. */
  readonly value: string | null
}

/** The average of a price over a window. */
export interface AverageClaim {
  /** Distinguishes the claim from others. */
  readonly kind: 'average'
  /** The start of the window, in the feed's unit. */
  readonly from: number
  /** The end of the window, in the feed's unit. */
  readonly to: number
  /** How the ends of the window count. */
  readonly ends: WindowEnds
  /** The field of the reports that is averaged. */
  readonly field: string
  /** `sum / duration`, rounded towards zero, as decimal text; null if no report counts. */
  readonly value: string | null
  /** The sum of price times duration, as decimal text. */
  readonly sum: string
  /** The sum of the durations, in the feed's unit. */
  readonly duration: number
}

/**
 * A claim about the price of a feed, and the signed reports that prove it. It is plain JSON, and
 * everything in it is checked again by `checkProof`.
 */
export interface Proof {
  /** Always `sluice-proof`. */
  readonly format: 'sluice-proof'
  /**
   * The version of this format: 2 since proofs have neighbours. A proof of version 1 is still
   * checked.
   */
  readonly version: 1 | 2
  /** The feed, `0x` and 64 hexadecimal digits in lower case. */
  readonly feedID: string
  /** What the proof claims. */
  readonly claim: PriceClaim | AverageClaim
  /**
   * The ranges of the moment or window that no report of the proof holds, in ascending order, both
   * ends included. No proof can show that a report does not exist: see `against` of `checkProof`.
   */
  readonly missing: readonly TimeRange[]
  /**
   * The signed reports, `0x` and hexadecimal digits, in ascending order: those whose windows touch
   * the moment or window, and, where its start or end is missing, the report before or after it.
   */
  readonly reports: readonly string[]
  /**
   * The signed reports before and after `reports`, if the service had them: with these, the
   * sequence numbers show whether a report was signed later than its time. Version 1 has none.
   */
  readonly neighbours?: readonly string[]
}

/**
 * Why a proof is refused, as a word that does not change between versions.
 *
 * | reason | meaning |
 * |---|---|
 * | `malformed` | a field of the proof is missing, or has another form |
 * | `too-large` | the proof has more reports or text than the format allows |
 * | `wrong-feed` | a report is of another feed |
 * | `signature` | a report is not signed by enough of the signers, or has other bytes than were signed |
 * | `order` | a report was not observed after the report before it |
 * | `tiling` | the windows of the reports leave another range open than `missing` says |
 * | `ends` | a report does not touch the moment or window, or the neighbour of a missing range is not there |
 * | `value` | the claimed number is not the number that the reports give |
 * | `signed-later` | the network signed a report later than its time, as another report shows |
 * | `refuted` | a further report, validly signed, holds a missing range, or a time of the claim belongs to it |
 */
export type ProofFailure =
  | 'malformed'
  | 'too-large'
  | 'wrong-feed'
  | 'signature'
  | 'order'
  | 'tiling'
  | 'ends'
  | 'value'
  | 'signed-later'
  | 'refuted'

/** A proof is refused. The message names the field and the rule. */
export class ProofError extends DataStreamsError {
  /** Why, as a word. */
  readonly reason: ProofFailure

  constructor(reason: ProofFailure, message: string, cause?: unknown) {
    super(`the proof is refused: ${message}`, {
      code: 'PROOF',
      ...(cause === undefined ? {} : { cause }),
    })
    this.reason = reason
  }

  static {
    ProofError.prototype.name = 'ProofError'
  }
}

/** The code of a refused proof. */
declare module '../core/errors.js' {
  interface ErrorClasses {
    /** A proof is refused; `reason` says why. */
    PROOF: ProofError
  }
}
