/** True in `npm run test:full`. A file that only the full tier runs is called `….full.test.ts`. */
export const isFull: boolean = process.env.TEST_FULL === '1'

/** The amount of random inputs: in `npm test`, and in the full tier. */
export const inForm = (short: number, full: number): number => (isFull ? full : short)
