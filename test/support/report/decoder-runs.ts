import { inForm } from '../long.js'

/** Random reports of each version that decoders are tried with, and ten times as many mutated. The long form asks for more. */
export const REPORTS: number = Number(process.env.DECODER_REPORTS ?? inForm(200, 1000))

/** Milliseconds a test may take. */
export const LIMIT: number = Math.max(60_000, 30 * REPORTS)
