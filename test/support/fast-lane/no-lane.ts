import type { FastLane } from '../../../client/fast/index.js'

/** The closed door of `client/fast/`: `FAST_LANE=closed npm test` runs the documented way alone. */
export const fastLane: FastLane | undefined = undefined
