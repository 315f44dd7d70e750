import { describe, expect, test } from '@jest/globals'
import { rejectInstrumentation } from '../instrumentation.js'
import { runHere } from './support/cli.js'

const UNCLEAR = 'NODE_OPTIONS that hold a backslash, a control character or an open quote'

describe('a process that is to hold secrets', () => {
  test.each<[string, Readonly<Record<string, string>>, readonly string[]]>([
    ['NODE_DEBUG', { NODE_DEBUG: 'http' }, []],
    ['NODE_DEBUG_NATIVE', { NODE_DEBUG_NATIVE: 'tls' }, []],
    ['--require', { NODE_OPTIONS: '--no-warnings --require "/opt/apm.cjs"' }, []],
    ['--require', { NODE_OPTIONS: '--re"quire" /opt/apm.cjs' }, []],
    ['--require', { NODE_OPTIONS: '"--title=a b"  "--require=/opt/a b.cjs"' }, []],
    [UNCLEAR, { NODE_OPTIONS: '"--requ\\ire" /opt/apm.cjs' }, []],
    [UNCLEAR, { NODE_OPTIONS: '--title=C:\\x' }, []],
    [UNCLEAR, { NODE_OPTIONS: '--no-warnings\t--title=x' }, []],
    [UNCLEAR, { NODE_OPTIONS: '--no-warnings "--title=x' }, []],
    ['--snapshot-blob', { NODE_OPTIONS: '--snapshot_blob=/opt/app.blob' }, []],
    ['--snapshot-blob', {}, ['--snapshot-blob', 'app.blob']],
    ['--experimental-config-file', {}, ['--experimental-config-file=node.json']],
    ['--import', { NODE_OPTIONS: '--import=tracer' }, []],
    ['-r', {}, ['-r', 'apm.cjs']],
    ['--experimental-loader', {}, ['--experimental_loader=x.mjs']],
    ['--inspect', {}, ['--inspect=0']],
    ['--trace-tls', {}, ['--trace_tls']],
    ['--tls-keylog', {}, ['--tls-keylog=keys']],
    ['NODE_V8_COVERAGE', { NODE_V8_COVERAGE: '/tmp/coverage' }, []],
    ['LD_PRELOAD', { LD_PRELOAD: '/opt/spy.so' }, []],
    ['LD_AUDIT', { LD_AUDIT: '/opt/spy.so' }, []],
    ['DYLD_INSERT_LIBRARIES', { DYLD_INSERT_LIBRARIES: '/opt/spy.dylib' }, []],
    ['OPENSSL_CONF', { OPENSSL_CONF: '/opt/engine.cnf' }, []],
    ['OPENSSL_ENGINES', { OPENSSL_ENGINES: '/opt/engines' }, []],
    ['OPENSSL_MODULES', { OPENSSL_MODULES: '/opt/providers' }, []],
    ['--openssl-config', { NODE_OPTIONS: '--openssl_config=/opt/engine.cnf' }, []],
    ['--openssl-config', {}, ['--openssl-config', 'engine.cnf']],
    ['--openssl-shared-config', {}, ['--openssl-shared-config']],
  ])('is refused under %s, which the error names', (name, env, execArgv) => {
    expect(() => rejectInstrumentation(env, execArgv)).toThrow(
      `Node was started with ${name}, so secrets could be seen`,
    )
  })

  test('is not refused for flags that show nothing', () => {
    const env = { NODE_OPTIONS: '--max-old-space-size=500 --no-warnings', NODE_DEBUG: '' }
    rejectInstrumentation(env, ['--enable-source-maps', '--dns-result-order=ipv4first'])
    rejectInstrumentation({ OPENSSL_CONF: '' }, ['--openssl-legacy-provider'])
    rejectInstrumentation({ NODE_OPTIONS: ' "--title=C 1"  --no-warnings ' }, [])
  })
})

test.each([
  ['NODE_DEBUG', 'nothing'],
  ['OPENSSL_CONF', '/dev/null'],
])('sluice enclave does not start under %s, unless told that it may', async (name, value) => {
  const args = ['enclave', '--key', 'no.key', '--caller', 'x', '--vault', 'no-vault']
  const run = (...more: readonly string[]) =>
    runHere([...args, ...more], { env: { [name]: value } })
  const refused = await run()
  expect(refused.code).toBe(2)
  expect(refused.err).toMatch(
    new RegExp(`^sluice: Node was started with ${name}, .*--allow-instrumentation\n$`),
  )
  const told = await run('--allow-instrumentation')
  expect(told.err).toMatch(/no-vault is not a vault/)
})
