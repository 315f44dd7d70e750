import { afterEach, expect } from '@jest/globals'

/** Returns a list of functions that run after each test, the last added first. */
export function closeAfterEach(): (() => unknown)[] {
  const closers: (() => unknown)[] = []
  afterEach(async () => {
    for (const close of closers.splice(0).reverse()) await close()
  })
  return closers
}

/** Fails a test that leaves an unhandled rejection or an uncaught exception. */
export function failOnUnhandled(): void {
  const unhandled: unknown[] = []
  process.on('unhandledRejection', reason => unhandled.push(reason))
  process.on('uncaughtException', error => unhandled.push(error))
  afterEach(() => expect(unhandled).toEqual([]))
}
