import type { FastPath } from '../../../client/fast/index.js'

/** Stands for `client/fast/`: `FAST_PATH=off npm test` runs only the standard path. */
export const fastPath: FastPath | undefined = undefined
