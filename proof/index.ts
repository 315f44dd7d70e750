export {
  type CheckedProof,
  type CheckProofOptions,
  checkProof,
  type HoleEdges,
  type LateReport,
} from './check-proof.js'
export {
  type AverageProofOptions,
  createProof,
  type PriceProofOptions,
  type ProofClient,
} from './create-proof.js'
export {
  type AverageClaim,
  type PriceClaim,
  type Proof,
  ProofError,
  type ProofFailure,
} from './format.js'
export { type AveragedReport, IncompleteError, type Twap, type TwapOptions, twap } from './twap.js'
export type { TimeRange, WindowEnds } from './windows.js'
