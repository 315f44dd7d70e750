import { expect, test } from '@jest/globals'
import { hideKeys } from '../../cli/errors.js'

const key = '5a'.repeat(32)

test.each([
  `error: unknown command '0x${key}'`,
  `error: unknown option '-x${key}'`,
  `error: unknown option '--max${key}'`,
  `error: unknown option '--key=${key}'`,
  `callers: ${key} is none`,
])('%s is shown without the key', text => {
  expect(hideKeys(text)).not.toContain('5a5a')
})

test.each([
  "error: unknown command 'strem' (Did you mean stream?)",
  `no report of 0x0003${'5a'.repeat(30)}`,
])('%s is shown as it is', text => {
  expect(hideKeys(text)).toBe(text)
})
