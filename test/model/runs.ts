// How often a model is run, and how a run that failed is run again.
import type fc from 'fast-check'
import { inForm } from '../support/tier.js'

/** Runs of the long form, where it is asked for. */
const LONG = process.env.MODEL_RUNS

/**
 * What fast-check is to do: so many runs, or as many as MODEL_RUNS says. A failure prints its seed and path, and the
 * commands' replayPath: MODEL_SEED, MODEL_PATH and MODEL_REPLAY are for these.
 */
export function runs<Given>(count: number): fc.Parameters<Given> {
  const { MODEL_SEED: seed, MODEL_PATH: path } = process.env
  return {
    numRuns: LONG === undefined ? inForm(Math.ceil(count / 10), 2 * count) : Number(LONG),
    // The short form makes the same runs each time; the long one others.
    ...(seed === undefined && LONG !== undefined ? {} : { seed: Number(seed ?? 1) }),
    ...(path === undefined ? {} : { path }),
    endOnFailure: false,
  }
}

/** Of the commands of a run. */
export function commandRules(maxCommands: number): fc.CommandsContraints {
  const { MODEL_REPLAY: replayPath } = process.env
  return { maxCommands, size: 'max', ...(replayPath === undefined ? {} : { replayPath }) }
}

/** Numbers from 0 to 1 that depend on the seed alone. */
export function randomOf(seed: number): () => number {
  let state = seed | 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

/** Milliseconds a test of so many runs may take; else jest's own limit holds. */
export const LIMIT: number | undefined = LONG === undefined ? undefined : 24 * 3_600_000
