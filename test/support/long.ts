import { test } from '@jest/globals'

/** True in `npm run test:long`. Files of the long form alone are called `….long.test.ts`. */
export const isLong: boolean = process.env.TEST_LONG === '1'

const nothing = (): void => undefined

/** A slow test that adds little to others: it runs in the long form alone. */
export const longTest: Pick<typeof test, 'each'> & ((...given: Parameters<typeof test>) => void) =
  isLong ? test : Object.assign(nothing, { each: (() => nothing) as unknown as typeof test.each })

/** The amount of random inputs: in the short form, and in the long one. */
export const inForm = (short: number, long: number): number => (isLong ? long : short)
