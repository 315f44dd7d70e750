import { describe, expect, test } from '@jest/globals'
import { APIError } from 'sluice/client'
import { type Check, failed, ok, runChecks } from '../../doctor/check.js'
import { satisfies } from '../../doctor/checks/machine.js'
import { Context } from '../../doctor/context.js'
import { createHider, describeFindings, reportOf } from '../../doctor/doctor.js'
import { subjectOf } from '../support/cli/doctor.js'

const check = (name: string, run: Check['run'], more: Partial<Check> = {}): Check => ({
  ...{ name, needs: [], exitCode: 1, run },
  ...more,
})

/** The lines of a run, as `check status: text`, and its exit code. */
async function linesFrom(checks: readonly Check[]) {
  const shown: string[] = []
  const context = new Context(subjectOf('http://127.0.0.1:1'), new AbortController().signal)
  const outcomes = await runChecks(checks, context, ({ check }) => shown.push(check.name))
  await context.close()
  expect(shown).toEqual(checks.map(({ name }) => name))
  const found = outcomes.flatMap(outcome => describeFindings(outcome, text => text))
  return {
    lines: found.map(({ check, status, text }) => `${check} ${status}: ${text}`),
    exitCode: reportOf(found).exitCode,
  }
}

describe('checks', () => {
  test('run side by side, and are shown in their order', async () => {
    let release = (): void => undefined
    const isReleased = new Promise<void>(resolve => {
      release = resolve
    })
    const { lines, exitCode } = await linesFrom([
      check('first', () => isReleased.then(() => [ok('late')])),
      check('second', async () => {
        release()
        return [ok('early')]
      }),
    ])
    expect(lines).toEqual(['first ok: late', 'second ok: early'])
    expect(exitCode).toBe(0)
  })

  test('are not run where one that they need has failed, however far before them', async () => {
    const { lines, exitCode } = await linesFrom([
      check('a', async () => [ok('one'), failed('two', 'mend it')], { exitCode: 4 }),
      check('b', async () => [ok('never')], { needs: ['a'] }),
      check('c', async () => [ok('never')], { needs: ['b'] }),
      check('d', async () => [failed('own', 'mend it')], { exitCode: 3 }),
    ])
    expect(lines).toEqual([
      'a ok: one',
      'a failed: two',
      'b not checked: because of a',
      'c not checked: because of a',
      'd failed: own',
    ])
    expect(exitCode).toBe(4)
  })

  test('have failed that throw, with the exit code of their error, or that take too long', async () => {
    const aborted: unknown[] = []
    const { lines, exitCode } = await linesFrom([
      check('a', () => Promise.reject(new APIError('no answer', { code: 'API_NETWORK' }))),
      check(
        'b',
        (_context, signal) => {
          signal.addEventListener('abort', () => aborted.push(signal.reason))
          return new Promise(() => undefined)
        },
        { deadline: () => 20 },
      ),
    ])
    expect(lines).toEqual(['a failed: no answer', 'b failed: it took more than 0.02 s'])
    expect(aborted).toHaveLength(1)
    expect(exitCode).toBe(4)
  })
})

describe('what is hidden', () => {
  const hide = createHider({
    ...subjectOf('http://127.0.0.1:1'),
    credentials: { apiKey: 'the-key', userSecret: 'the-secret' },
    env: { HTTPS_PROXY: 'http://me:pass%40word@proxy:3128', ALL_PROXY: 'me:other-word@proxy' },
  })

  test.each([
    ['it quotes the-key and the-secret', 'it quotes … and …'],
    ['by http://you:something@host and nats://token@host', 'by http://…@host and nats://…@host'],
    ['pass@word, pass%40word, other-word', '…, …, …'],
    ['\u001b[31mred\u0007\r\n', ' [31mred '],
    ['nothing', 'nothing'],
  ])('%j', (text, shown) => {
    expect(hide(text)).toBe(shown)
  })
})

test.each([
  ['20.0.0', '>=20.0.0', true],
  ['19.9.9', '>=20.0.0', false],
  ['20.1.0', '>=20.0.5', true],
  ['3.4.0', '^3.4.0', true],
  ['3.3.9', '^3.4.0', false],
  ['4.0.0', '^3.4.0', false],
  ['5.8.1', '^5.7.0 || ^6.0.0', true],
  ['6.0.0', '^5.7.0 || ^6.0.0', true],
  ['7.0.0', '^5.7.0 || ^6.0.0', false],
  ['9.1.0', '>=7.0.0', true],
  ['1.0.0', '*', true],
])('%s is in %s: %s', (version, range, expected) => {
  expect(satisfies(version, range)).toBe(expected)
})
