import type { ConfidentialCall, ConfidentialReply, Layer } from './types.js'

/** Carries a confidential call on. */
export type ConfidentialNext = (call: ConfidentialCall) => Promise<ConfidentialReply>

/** A layer for confidential calls; all others pass it by. */
export function confidentialLayer(
  carry: (call: ConfidentialCall, next: ConfidentialNext) => Promise<ConfidentialReply>,
): Layer {
  return next => {
    // The reply is of the kind of its call: the core has checked it.
    const onwards: ConfidentialNext = call => next(call) as Promise<ConfidentialReply>
    return call => (call.kind === 'confidential' ? carry(call, onwards) : next(call))
  }
}
