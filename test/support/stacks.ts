import { afterAll, beforeAll } from '@jest/globals'

/**
 * Errors of the file that calls this have no stack. For a test that makes thousands of errors: jest looks up each line of a stack in a source
 * map, and the library reads the stack of each of its errors.
 */
export function withoutStacks(): void {
  const { stackTraceLimit } = Error
  beforeAll(() => {
    Error.stackTraceLimit = 0
  })
  afterAll(() => {
    Error.stackTraceLimit = stackTraceLimit
  })
}
