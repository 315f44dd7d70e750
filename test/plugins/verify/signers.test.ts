import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import type { SignerSet, Signers, UnverifiedReport } from '../../../plugins/verify/options.js'
import { isRejection } from '../../../plugins/verify/rule.js'
import { createSignerSource, type SignerSource } from '../../../plugins/verify/signer-source.js'
import {
  addresses,
  DIGEST,
  OTHER_DIGEST,
  signers,
  TIME,
} from '../../support/report/signed-reports.js'

const report = { feedID: `0x0003${'00'.repeat(30)}`, fullReport: '0x', observationsTimestamp: TIME }
const digestOf = (number: number): string => `0x${number.toString(16).padStart(64, '0')}`

describe('a set is rejected, by field and rule', () => {
  const many = Array.from({ length: 32 }, (_, at) => `0x${(at + 1).toString(16).padStart(40, '0')}`)
  test.each<readonly [string, unknown]>([
    ['signers must be a set, a list of sets or a function, not null', null],
    ['signers must be a set, a list of sets or a function, not string', 'x'],
    ['signers is required', undefined],
    ['signers must hold at least one set', []],
    ['signers.signers must be a list of addresses, not string', { signers: 'a', f: 1 }],
    ['signers.signers must be at most 31, not 32', { signers: many, f: 1 }],
    ['signers.signers[1] must be 0x and 40', { signers: [addresses[0], '0x12'], f: 1 }],
    ['signers.signers[0] must be a string', { signers: [12], f: 1 }],
    ['signers.signers[0] must not be zero', { signers: [`0x${'0'.repeat(40)}`], f: 1 }],
    [
      'signers.signers[4] must not be a duplicate',
      {
        ...signers,
        signers: [...addresses.slice(0, 4), addresses[0]?.toUpperCase().replace('X', 'x')],
      },
    ],
    ['signers.f must be at least 1, not 0', { ...signers, f: 0 }],
    ['signers.f must be a whole number, not 1.5', { ...signers, f: 1.5 }],
    ['signers.f must be a number', { signers: signers.signers }],
    [
      'signers.signers must be more than 3 f: 6 are too few for an f of 2',
      { ...signers, signers: addresses.slice(0, 6) },
    ],
    ['signers.configDigest must be 0x and 64', { ...signers, configDigest: '0x00' }],
    ['signers.activeFrom must be at most 4294967295', { ...signers, activeFrom: TIME * 1000 }],
    [
      'signers.activeUntil must be later than activeFrom',
      { ...signers, activeFrom: 5, activeUntil: 5 },
    ],
    ["unknown option 'threshold' of signers", { ...signers, threshold: 1 }],
    ['signers[1].f must be a number', [signers, { signers: addresses }]],
    ['signers[1].activeFrom must differ', [signers, signers]],
  ])('%s', (message, value) => {
    expect(() => createSignerSource(value as Signers)).toThrow(
      expect.objectContaining({ code: 'VALIDATION', message: expect.stringContaining(message) }),
    )
  })

  test('31 signers are not too many, and 3 f + 1 not too few', () => {
    expect(() => createSignerSource({ signers: many.slice(0, 31), f: 10 })).not.toThrow()
  })
})

describe('a source that is a function', () => {
  afterEach(() => void jest.useRealTimers())

  type Answer = SignerSet | readonly SignerSet[] | undefined | null
  let answer: (digest: string) => Promise<Answer> | Answer
  let calls: string[]
  let source: SignerSource
  beforeEach(() => {
    jest.useFakeTimers()
    calls = []
    answer = () => signers
    source = createSignerSource(async digest => {
      calls.push(digest)
      return answer(digest)
    })
  })

  /** The set that was found, once it is. */
  const find = (digest: string = DIGEST, time = TIME): Promise<string> =>
    new Promise(resolve => {
      source.find(digest, { ...report, observationsTimestamp: time }, found =>
        resolve(isRejection(found) ? found.reason : 'found'),
      )
    })
  const ask = async (digest?: string, time?: number): Promise<string> => {
    const finding = find(digest, time)
    await jest.advanceTimersByTimeAsync(0)
    return finding
  }

  test('is called once for a configuration, even for many reports at once', async () => {
    const findings = Promise.all([find(), find(), find(OTHER_DIGEST)])
    await jest.advanceTimersByTimeAsync(0)
    expect(await findings).toEqual(['found', 'found', 'found'])
    await jest.advanceTimersByTimeAsync(86_400_000)
    expect(await ask()).toBe('found')
    expect(calls).toEqual([DIGEST, OTHER_DIGEST])
  })

  test.each([undefined, null, []])(
    'that has none (%p) is not called again for ten seconds',
    async none => {
      answer = () => none
      expect(await ask()).toBe('unknown-digest')
      await jest.advanceTimersByTimeAsync(9_900)
      expect(await ask()).toBe('unknown-digest')
      expect(calls.length).toBe(1)
      answer = () => [signers]
      await jest.advanceTimersByTimeAsync(200)
      expect(await ask()).toBe('found')
      expect(calls.length).toBe(2)
    },
  )

  test('that only has signers of other configurations has none', async () => {
    answer = () => [{ ...signers, configDigest: OTHER_DIGEST }]
    expect(await ask()).toBe('unknown-digest')
  })

  test.each<readonly [string, () => Promise<Answer> | Answer]>([
    ['rejects', () => Promise.reject(new Error('no network'))],
    [
      'throws',
      () => {
        throw new Error('no network')
      },
    ],
    ['answers with a set that breaks a rule', () => ({ ...signers, f: 9 })],
  ])('that %s is called again after a second', async (_, failing) => {
    answer = failing
    expect(await ask()).toBe('signers-unavailable')
    await jest.advanceTimersByTimeAsync(900)
    expect(await ask()).toBe('signers-unavailable')
    expect(calls.length).toBe(1)
    answer = () => signers
    await jest.advanceTimersByTimeAsync(200)
    expect(await ask()).toBe('found')
  })

  test('that throws at once, and not by a promise, causes no exception', async () => {
    source = createSignerSource(() => {
      throw new Error('at once')
    })
    expect(await ask()).toBe('signers-unavailable')
  })

  test('that never answers has ten seconds, and a later answer does not count', async () => {
    let late: (sets: Answer) => void = () => undefined
    answer = () => new Promise<Answer>(resolve => (late = resolve))
    const finding = find()
    await jest.advanceTimersByTimeAsync(10_001)
    expect(await finding).toBe('signers-unavailable')
    late(signers)
    expect(await ask()).toBe('signers-unavailable')
    expect(jest.getTimerCount()).toBe(0)
  })

  test('is called for eight configurations at once and no more', async () => {
    answer = () => new Promise(() => undefined)
    for (let each = 0; each < 8; each++) void find(digestOf(each))
    expect(await ask(digestOf(8))).toBe('signers-unavailable')
    expect(calls.length).toBe(8)
  })

  describe('by reports of several origins', () => {
    const findFrom = (origin: string, digest: string, found: (message: string) => void) =>
      source.find(digest, { ...report, origin }, set =>
        found(isRejection(set) ? `${set.reason}: ${set.rule}` : 'found'),
      )
    const askFrom = async (origin: string, digest: string): Promise<string | undefined> => {
      let message: string | undefined
      findFrom(origin, digest, each => {
        message = each
      })
      await jest.advanceTimersByTimeAsync(0)
      return message
    }
    const never = (): Promise<Answer> => new Promise(() => undefined)

    test('has four calls for each at a time, whatever another invents', async () => {
      answer = never
      for (let each = 0; each < 4; each++) await askFrom('liar', digestOf(each))
      expect(await askFrom('liar', digestOf(4))).toBe(
        'signers-unavailable: its signers are not available: 4 configurations of its origin are being looked up, which is the maximum',
      )
      answer = () => signers
      expect(await askFrom('honest', DIGEST)).toBe('found')
      expect(calls.length).toBe(5)
    })

    test('is called for each eight times in a row, and then once a second', async () => {
      answer = () => undefined
      const flood = async (from: number): Promise<void> => {
        for (let each = 0; each < 100; each++) await askFrom('liar', digestOf(from + each))
      }
      await flood(0)
      expect(calls.length).toBe(8)
      expect(await askFrom('liar', digestOf(99))).toMatch(/its origin causes too many lookups/)
      for (let second = 1; second <= 5; second++) {
        await jest.advanceTimersByTimeAsync(1000)
        await flood(1000 * second)
      }
      expect(calls.length).toBe(13)
      answer = () => signers
      expect(await askFrom('honest', DIGEST)).toBe('found')
      await jest.advanceTimersByTimeAsync(60_000)
      calls = []
      answer = () => undefined
      await flood(10_000)
      expect(calls.length).toBe(8)
    })

    test('has 4096 reports of each wait at a time', async () => {
      let late: (sets: Answer) => void = () => undefined
      answer = () => new Promise<Answer>(resolve => (late = resolve))
      const received: string[] = []
      const leave = findFrom('liar', DIGEST, message => received.push(message))
      for (let each = 1; each < 4096; each++)
        findFrom('liar', DIGEST, message => received.push(message))
      expect(await askFrom('liar', DIGEST)).toMatch(
        /unavailable: .*4096 reports of its origin wait/,
      )
      leave()
      expect(await askFrom('liar', DIGEST)).toBeUndefined()
      findFrom('honest', DIGEST, message => received.push(message))
      late(signers)
      await jest.advanceTimersByTimeAsync(0)
      expect(received).toEqual(Array.from({ length: 4096 }, () => 'found'))
      answer = never
      for (let each = 0; each < 4096; each++)
        findFrom('liar', OTHER_DIGEST, message => received.push(message))
      expect(received.length).toBe(4096)
    })

    test('has 64 origins that have their own, and others that share one', async () => {
      answer = never
      for (let each = 0; each < 64; each++) await askFrom(`${each}`, digestOf(each))
      for (let each = 64; each < 68; each++) await askFrom(`${each}`, digestOf(each))
      expect(await askFrom('68', digestOf(68))).toMatch(/which is the maximum/)
      expect(await askFrom('63', digestOf(69))).toBeUndefined()
    })

    test('gets the origin', async () => {
      const given: UnverifiedReport[] = []
      source = createSignerSource(async (_, each) => void given.push(each))
      await askFrom('one', DIGEST)
      await ask(OTHER_DIGEST)
      expect(given).toStrictEqual([{ ...report, origin: 'one' }, report])
    })
  })

  test('caches the configurations in use, whatever others it has found', async () => {
    expect(await ask()).toBe('found')
    for (let each = 0; each < 200; each++) {
      await ask(digestOf(each))
      await ask()
    }
    expect(calls.filter(each => each === DIGEST).length).toBe(1)
    calls = []
    await ask(digestOf(0))
    expect(calls).toEqual([digestOf(0)])
  })

  test('is called again where its signers are not those of the time', async () => {
    answer = () => ({ ...signers, activeUntil: TIME })
    expect(await ask()).toBe('not-active')
    expect(await ask(DIGEST, TIME - 1)).toBe('found')
    expect(calls.length).toBe(1)
    await jest.advanceTimersByTimeAsync(1001)
    answer = () => [
      { ...signers, activeUntil: TIME },
      { ...signers, activeFrom: TIME },
    ]
    expect(await ask()).toBe('found')
    expect(await ask(DIGEST, TIME - 1)).toBe('found')
    expect(calls.length).toBe(2)
  })

  test.each([
    ['finds none', 'unknown-digest', (): Answer => undefined],
    ['fails', 'signers-unavailable', () => Promise.reject<Answer>(new Error('no network'))],
  ] as const)('is called again once a set has ended, and where it then %s', async (...row) => {
    const [, reason, then] = row
    const now = Date.now() / 1000
    answer = () => ({ ...signers, activeUntil: now + 5 })
    expect(await ask(DIGEST, now)).toBe('found')
    answer = then
    await jest.advanceTimersByTimeAsync(4000)
    expect(await ask(DIGEST, now + 9)).toBe(reason)
    expect(await ask(DIGEST, now)).toBe('found')
    await jest.advanceTimersByTimeAsync(1001)
    expect(await ask(DIGEST, now)).toBe(reason)
    expect(await ask(DIGEST, now)).toBe(reason)
    expect(calls.length).toBe(3)
  })

  test('keeps its sets where a later call finds none, or fails', async () => {
    answer = () => ({ ...signers, activeUntil: TIME })
    expect(await ask(DIGEST, TIME - 1)).toBe('found')
    for (const failing of [() => undefined, () => Promise.reject(new Error('no network'))]) {
      answer = failing
      await jest.advanceTimersByTimeAsync(10_001)
      calls = []
      expect(await ask()).not.toBe('found')
      expect(await ask()).not.toBe('found')
      expect(await ask(DIGEST, TIME - 1)).toBe('found')
      expect(calls.length).toBe(1)
    }
  })

  test('caches 128 invented configurations, which displace no real one', async () => {
    expect(await ask()).toBe('found')
    answer = () => undefined
    for (let each = 0; each < 200; each++) await ask(digestOf(each))
    calls = []
    expect(await ask()).toBe('found')
    await ask(digestOf(199))
    await ask(digestOf(72))
    expect(calls).toEqual([])
    await ask(digestOf(71))
    expect(calls).toEqual([digestOf(71)])
  })

  test('leaves no timer when it ends, and calls no callback', async () => {
    answer = () => new Promise(() => undefined)
    const found = jest.fn()
    source.find(DIGEST, report, found)
    source.end()
    expect(jest.getTimerCount()).toBe(0)
    await jest.advanceTimersByTimeAsync(20_000)
    expect(found).not.toHaveBeenCalled()
  })
})
