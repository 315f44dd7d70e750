import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { refuseInstrumentation } from '../../cli/instrumentation.js'

const command = join(__dirname, '../../dist/esm/cli/sluice.js')

describe('a process that is to hold secrets', () => {
  test.each<[string, Readonly<Record<string, string>>, readonly string[]]>([
    ['NODE_DEBUG', { NODE_DEBUG: 'http' }, []],
    ['NODE_DEBUG_NATIVE', { NODE_DEBUG_NATIVE: 'tls' }, []],
    ['--require', { NODE_OPTIONS: '--no-warnings --require "/opt/apm.cjs"' }, []],
    ['--import', { NODE_OPTIONS: '--import=tracer' }, []],
    ['-r', {}, ['-r', 'apm.cjs']],
    ['--experimental-loader', {}, ['--experimental_loader=x.mjs']],
    ['--inspect', {}, ['--inspect=0']],
    ['--trace-tls', {}, ['--trace_tls']],
    ['--tls-keylog', {}, ['--tls-keylog=keys']],
  ])('is refused under %s, which the error names', (name, env, execArgv) => {
    expect(() => refuseInstrumentation(env, execArgv)).toThrow(
      `Node was started with ${name}, so secrets could be seen`,
    )
  })

  test('is not refused for flags that show nothing', () => {
    const env = { NODE_OPTIONS: '--max-old-space-size=500 --no-warnings', NODE_DEBUG: '' }
    refuseInstrumentation(env, ['--enable-source-maps', '--dns-result-order=ipv4first'])
  })
})

test('sluice enclave does not start under NODE_DEBUG, unless told that it may', () => {
  const run = (...more: readonly string[]) =>
    spawnSync(
      process.execPath,
      [command, 'enclave', '--key', 'no.key', '--caller', 'x', '--vault', 'no-vault', ...more],
      { env: { PATH: process.env.PATH, NODE_DEBUG: 'nothing' }, encoding: 'utf8' },
    )
  const refused = run()
  expect(refused.status).toBe(2)
  expect(refused.stderr).toMatch(
    /^sluice: Node was started with NODE_DEBUG, .*--allow-instrumentation\n$/,
  )
  expect(run('--allow-instrumentation').stderr).toMatch(/no-vault is not a vault/)
})
