import { expect, test } from '@jest/globals'
import { hideKeys, inOneLine } from '../one-line.js'

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

test.each([
  [
    "sluice: unknown option '--jsn'\n(Did you mean --json?)\n",
    "sluice: unknown option '--jsn' (Did you mean --json?)",
  ],
  ['answered 401\n  The service says: no', 'answered 401; The service says: no'],
  ['it says \x1b[2J\x07\r\u202eno\u2028yes\t…', 'it says ?[2J???no?yes?…'],
])('%j is printed in one line', (text, line) => {
  expect(inOneLine(text)).toBe(line)
})
