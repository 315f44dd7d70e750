// The runner that joins files, with files in which something is wrong: none of them may hide another, or be green.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from '@jest/globals'
import { root } from '../sources.js'

interface Result {
  readonly name: string
  readonly status: string
  readonly assertionResults: readonly { readonly fullName: string; readonly status: string }[]
}

/** Runs jest with files of `fixtures`. */
async function run(...args: readonly string[]) {
  const jest = 'node_modules/jest/bin/jest.js'
  const child = spawn(process.execPath, [jest, '--json', '--runInBand', ...args], {
    cwd: root,
    env: { ...process.env, TEST_FIXTURES: '1', TEST_TIMES: undefined },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  let out = ''
  child.stdout.on('data', chunk => {
    out += chunk
  })
  const [code] = await once(child, 'close')
  return { code, out }
}

async function resultsOf(...args: readonly string[]): Promise<Readonly<Record<string, unknown>>> {
  const { code, out } = await run('test/support/jest/fixtures/.-', ...args)
  expect(code).toBe(1)
  const { testResults } = JSON.parse(out) as { readonly testResults: readonly Result[] }
  return Object.fromEntries(
    testResults.map(({ name, status, assertionResults }) => [
      name.split('/').at(-1),
      [status === 'failed', assertionResults.map(each => `${each.fullName}: ${each.status}`)],
    ]),
  )
}

test('a file alone has its focused tests, its errors at load, in describe and after all', async () => {
  expect(await resultsOf()).toEqual({
    'a-only.test.ts': [false, ['is the only one of its file: passed', 'is left out: pending']],
    'b-fails.test.ts': [true, ['D same: failed']],
    'c-does-not-load.test.ts': [true, ['the file loads: failed']],
    'd-throws-in-describe.test.ts': [true, ['D same: passed', 'the file loads: failed']],
    'e-throws-after-all.test.ts': [true, ['same: failed']],
    'f-good.test.ts': [false, ['D same: passed', 'D other: passed']],
  })
})

test('a pattern of names selects tests by their own names, and hides no file that does not load', async () => {
  expect(await resultsOf('-t', '^D same$')).toMatchObject({
    'b-fails.test.ts': [true, ['D same: failed']],
    'c-does-not-load.test.ts': [true, ['the file loads: failed']],
    'd-throws-in-describe.test.ts': [true, ['D same: passed', 'the file loads: failed']],
    'f-good.test.ts': [false, ['D same: passed', 'D other: pending']],
  })
})

test('a test that ends the process is no success', async () => {
  expect((await run('test/support/jest/fixtures/exit')).code).toBe(1)
})
