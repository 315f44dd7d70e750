import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { hurry } from '@sluice/test-support/hurry.js'
import { startProxy } from '@sluice/test-support/wire/egress.js'
import type { DoctorReport } from '../../doctor/doctor.js'
import { type Around, runHere, start } from '../support/cli.js'

let engine: DataEngine
let env: Record<string, string>
beforeAll(async () => {
  const userSecret = 'secret-of-the-commands-test'
  engine = await startDataEngine({ origins: 2, apiKey: 'key-of-the-commands-test', userSecret })
  const { endpoint, wsEndpoint, apiKey } = engine
  env = { REST_URL: endpoint, WS_URL: wsEndpoint, API_KEY: apiKey, USER_SECRET: userSecret }
})
afterAll(() => engine.close())

const quick = ['--seconds', '0.2']

test('prints a line per finding, and what is wrong with what to do', async () => {
  hurry(4)
  const args = ['doctor', ...quick, engine.feeds[0] as string]
  const { code, out, err } = await runHere(args, {
    env: { ...env, USER_SECRET: 'another-secret-of-the-test' },
  })
  expect(err).toBe('')
  expect(out).toMatch(/^ok {11}node {9}\d+\.\d+\.\d+; sluice/)
  expect(out).toMatch(/\nfailed {7}credentials {2}the service rejects .*\n {26}→ check both for/)
  expect(out).toMatch(
    /\nnot checked {2}origins {6}because of credentials\n1 failed, 0 warnings, 7 ok, 4/,
  )
  expect(code).toBe(3)
  for (const secret of ['another-secret', env.API_KEY]) expect(out).not.toContain(secret)
})

test('says why, where a feed has a name and the service can’t be asked for it', async () => {
  hurry(4)
  const { out, code } = await runHere(['doctor', ...quick, 'ETH/USD'], {
    env: { ...env, USER_SECRET: 'another-secret-of-the-test' },
  })
  expect(out).toMatch(/failed {7}credentials/)
  expect(code).toBe(3)
})

test('prints an object as JSON', async () => {
  const { code, out, err } = await runHere(['doctor', '--json', ...quick], { env })
  expect([code, err]).toEqual([0, ''])
  const report = JSON.parse(out) as DoctorReport
  expect(report.counts.failed).toBe(0)
  expect(report.findings.find(({ check }) => check === 'origins')).toMatchObject({
    status: 'ok',
    text: 'high availability is possible: 2 origins',
    facts: { origins: 2 },
  })
})

test('colours the status on a terminal, and says there what it waits for', async () => {
  hurry(4)
  const terminals: Around['terminals'] = ['stdout', 'stderr']
  const { out, err } = await runHere(['doctor', '--seconds', '2.6'], { env, terminals })
  expect(err).toContain('watching the origins')
  expect(err.endsWith('\r\u001b[2K')).toBe(true)
  expect(out).toMatch(/origin 002: connected/)
})

test('takes the proxy of the environment, whose password stays hidden', async () => {
  const proxy = await startProxy({ username: 'someone', password: 'open-sesame' })
  const url = proxy.url.replace('//', '//someone:wrong-sesame@')
  const { code, out } = await runHere(['doctor', '--proxy', 'env', '--json', ...quick], {
    env: { ...env, HTTPS_PROXY: url },
  })
  await proxy.close()
  // The service of this test has no TLS, so HTTPS_PROXY is not for it.
  expect(code).toBe(0)
  expect(out).not.toContain('sesame')
})

test('an unknown feed is one failed check, with a suggestion, and the others run', async () => {
  hurry(4)
  const known = engine.feeds[0] as string
  const { code, out } = await runHere(['doctor', ...quick, known, 'ETH/UST', '0x12'], { env })
  expect(out).toMatch(
    /\nfailed {7}feeds {8}"ETH\/UST" is no feed: .*; did you mean 'ETH\/USD'\?\n {26}→ sluice feeds lists/,
  )
  expect(out).toMatch(/\nfailed {7}feeds {8}the feed must be .*\n/)
  expect(out).toMatch(new RegExp(`\\nok {11}feeds {8}.*${known} may be read`))
  expect(out).toMatch(/ origins {6}origin 002: connected/)
  expect(out).toMatch(/\n2 failed, \d warnings?, \d+ ok\n$/)
  expect(code).toBe(2)
})

test.each([
  [['doctor', 'nonsense', '--nats', '127.0.0.1:1'], /^sluice: "nonsense" is no feed/],
  [['doctor', '--seconds', '0'], /--seconds.*must be a number from 0.1 to 3600/],
  [['doctor', '--creds', '/nowhere', '--nats', '127.0.0.1:1'], /^$/],
])('%#: wrong arguments end it with 2', async (args, message) => {
  const { code, err, out } = await runHere(args, { env: args.includes('--nats') ? {} : env })
  expect(err).toMatch(message)
  if (err === '') expect(out).toMatch(/failed +log +--creds can’t be read from \/nowhere: ENOENT/)
  expect(code).toBe(2)
})

test('ends with 130 and without a verdict when it is stopped', async () => {
  const { ended, shows, stop } = start(['doctor', '--seconds', '60'], { env })
  await shows(/credentials {2}accepted/)
  stop()
  const { code, out } = await ended
  expect(code).toBe(130)
  expect(out).not.toMatch(/origins|failed/)
})
