import { test } from '@jest/globals'
import { inForm, isFull } from './tier.js'

export { inForm, isFull as isLong }

const nothing = (): void => undefined

/** A slow test that adds little to others: it runs in the full tier alone. */
export const longTest: Pick<typeof test, 'each'> & ((...given: Parameters<typeof test>) => void) =
  isFull ? test : Object.assign(nothing, { each: (() => nothing) as unknown as typeof test.each })
