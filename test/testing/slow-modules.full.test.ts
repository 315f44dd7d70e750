// A correct plugin in a process whose modules load slowly, as those of tsx on Node 20 do.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'
import { built } from '../support/files.js'

/** Milliseconds that Node takes to find a module. It's longer than testPlugin waits before its clock skips a second. */
const SLOW = 400

const hooks = `export async function resolve(...given) {
  await new Promise(done => setTimeout(done, ${SLOW}))
  return given[2](given[0], given[1])
}`
const program = `
import { register } from 'node:module'
register('data:text/javascript,' + encodeURIComponent(${JSON.stringify(hooks)}))
const { testPlugin } = await import(${JSON.stringify(built('esm/testing/index.js'))})
await testPlugin(() => ({ name: 'passes-all-on', report: next => report => next(report) }))`

test('testPlugin finds no fault in a correct plugin where modules load slowly', async () => {
  const { stderr } = await promisify(execFile)(process.execPath, [
    ...['--input-type=module', '--eval', program],
  ])
  expect(stderr).toBe('')
})
