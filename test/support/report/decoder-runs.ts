import { inForm, isFull } from '../tier.js'

/** Random reports of each version that decoders are tried with, and ten times as many mutated. The long form asks for more. */
export const REPORTS: number = Number(process.env.DECODER_REPORTS ?? inForm(20, 1000))

/** In `npm test` the reports are the same each time; `DECODER_SEED` asks for others. */
export const seeded: { readonly seed?: number } =
  process.env.DECODER_SEED === undefined && isFull
    ? {}
    : { seed: Number(process.env.DECODER_SEED ?? 1) }

/** Milliseconds a test of so many reports may take; else jest's own limit holds. */
export const LIMIT: number | undefined = REPORTS > 2000 ? 30 * REPORTS : undefined
