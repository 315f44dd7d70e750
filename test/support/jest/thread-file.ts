import { built } from '../files.js'

/** Takes the place of each thread-file.ts in tests: the built file. */
export const threadFile = (path: string): string => built(`cjs/${path}`)
