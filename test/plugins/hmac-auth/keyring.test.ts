import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { Call } from '../../../client/contract/call.js'
import {
  type Credentials,
  Keyring,
  type RenewCredentials,
} from '../../../plugins/hmac-auth/keyring.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const first: Credentials = { apiKey: 'key-1', userSecret: 'secret-1' }
const second: Credentials = { apiKey: 'key-2', userSecret: 'secret-2' }

function setUp(renewCredentials?: RenewCredentials) {
  const lines: string[] = []
  const write = (line: string) => void lines.push(line)
  const controller = new AbortController()
  const { signal } = controller
  const call = { signal, scope: { log: { info: write, error: write } } } as unknown as Call
  const keyring = new Keyring(first, renewCredentials)
  const renew = (refused = keyring.keys) => keyring.renew(refused, call)
  return { keyring, renew, lines, controller }
}

/** A source whose requests the test answers. */
function createSource() {
  const answers: ((given: Credentials) => void)[] = []
  return {
    answers,
    ask: () => new Promise<Credentials>(resolve => void answers.push(resolve)),
  }
}

test('keys stay without renewCredentials', async () => {
  const { keyring, renew } = setUp()
  await renew()
  expect(keyring.keys).toMatchObject(first)
})

test('calls that wait share a request, and its keys are used', async () => {
  const { answers, ask } = createSource()
  const { keyring, renew, lines } = setUp(ask)
  const before = keyring.keys
  const waiting = Promise.all([renew(), renew(), renew()])
  expect(answers).toHaveLength(1)
  answers[0]?.(second)
  await waiting
  expect(keyring.keys).toMatchObject(second)
  expect(keyring.keys.signer).not.toBe(before.signer)
  expect(lines).toEqual(['renewCredentials gave other keys: requests are signed with them'])
  expect(jest.getTimerCount()).toBe(0)
})

test('a rejection of older keys causes no request', async () => {
  const ask = jest.fn(() => second)
  const { keyring, renew } = setUp(ask)
  const before = keyring.keys
  await renew()
  await jest.advanceTimersByTimeAsync(5000)
  await renew(before)
  expect(ask).toHaveBeenCalledTimes(1)
})

test('a request is made once a second at most, even where the keys stay', async () => {
  const ask = jest.fn(() => first)
  const { keyring, renew, lines } = setUp(ask)
  const before = keyring.keys
  for (let ms = 0; ms < 3000; ms += 100) {
    await renew()
    await jest.advanceTimersByTimeAsync(100)
  }
  expect(ask).toHaveBeenCalledTimes(3)
  expect(keyring.keys).toBe(before)
  expect(lines).toEqual([])
})

describe('a request that is not answered', () => {
  test('is waited for 10 s, and named once', async () => {
    const { answers, ask } = createSource()
    const { renew, lines } = setUp(ask)
    let ended = 0
    for (let each = 0; each < 3; each++) void renew().then(() => ended++)
    await jest.advanceTimersByTimeAsync(9000)
    void renew().then(() => ended++)
    await jest.advanceTimersByTimeAsync(999)
    expect(ended).toBe(0)
    await jest.advanceTimersByTimeAsync(1)
    expect(ended).toBe(4)
    expect(lines).toEqual(['renewCredentials has not answered within 10 s'])
    expect(answers).toHaveLength(1)
    expect(jest.getTimerCount()).toBe(0)
  })

  test('is made again, and its late answer is then ignored', async () => {
    const { answers, ask } = createSource()
    const { keyring, renew } = setUp(ask)
    void renew()
    await jest.advanceTimersByTimeAsync(10_000)
    const again = renew()
    expect(answers).toHaveLength(2)
    answers[1]?.(second)
    await again
    answers[0]?.({ apiKey: 'key-0', userSecret: 'secret-0' })
    await jest.advanceTimersByTimeAsync(0)
    expect(keyring.keys).toMatchObject(second)
  })

  test('is made again even if no call waits for it', async () => {
    const { answers, ask } = createSource()
    const { renew, controller } = setUp(ask)
    const waiting = renew()
    controller.abort(new Error('enough'))
    await expect(waiting).rejects.toThrow('enough')
    expect(jest.getTimerCount()).toBe(0)
    await jest.advanceTimersByTimeAsync(10_000)
    void renew().catch(() => undefined)
    expect(answers).toHaveLength(2)
  })
})

test.each<[string, RenewCredentials, RegExp]>([
  [
    'throws',
    () => {
      throw new Error('secret-2')
    },
    /^renewCredentials has failed: the keys stay as they are$/,
  ],
  ['rejects', () => Promise.reject(new Error('secret-2')), /^renewCredentials has failed/],
  ['gives nothing', () => undefined as never, /unusable.*: apiKey is required$/],
  ['gives half', () => ({ apiKey: 'key-2' }) as never, /unusable.*: userSecret is required$/],
  [
    'gives what no header can hold',
    () => ({ apiKey: 'secret-2\r\n', userSecret: 'secret-2' }),
    /unusable.*: apiKey must not contain a line break \(U\+000D\), as it does at index 8$/,
  ],
  [
    'gives what can’t be read',
    () =>
      ({
        get apiKey() {
          throw new Error('secret-2')
        },
      }) as never,
    /unusable.*: it can't be read$/,
  ],
])('a source that %s leaves the keys as they are, and is not quoted', async (_how, ask, line) => {
  const { keyring, renew, lines } = setUp(ask)
  const before = keyring.keys
  await renew()
  expect(keyring.keys).toBe(before)
  expect(lines).toEqual([expect.stringMatching(line)])
  expect(lines.join()).not.toContain('secret-2')
})

test.each([
  ['key with the same secret', { ...first, apiKey: 'key-2' }],
  ['secret of the same key', { ...first, userSecret: 'secret-2' }],
])('a new %s is used', async (_what, given) => {
  const { keyring, renew } = setUp(() => given)
  await renew()
  expect(keyring.keys).toMatchObject(given)
})
