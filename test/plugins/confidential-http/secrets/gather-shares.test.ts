import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { boxKeys, seal } from '../../../../crypto/sealed-box.js'
import {
  createShare,
  encrypt,
  generateKeys,
  type PrivateShare,
  parseCiphertext,
} from '../../../../crypto/tdh2/index.js'
import { VaultError } from '../../../../plugins/confidential-http/errors.js'
import {
  type FailureTimes,
  gatherShares,
  HEDGE_AFTER,
  type ShareHolder,
} from '../../../../plugins/confidential-http/secrets/gather.js'
import { failureOf } from '../../../support/waiting.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const name = { owner: '11'.repeat(20), namespace: 'main', key: 'key' }
const { publicKey, shares } = generateKeys({ threshold: 2, nodes: 4 })
const threshold = 2

/** Holders that answer so; undefined of one stands for its honest share. */
async function holdersOf(
  answers: readonly ((count: number) => Promise<Uint8Array | undefined>)[],
  isProcess = true,
) {
  const keys = boxKeys()
  const ciphertext = parseCiphertext(publicKey, await encrypt(publicKey, Buffer.from('value')))
  const asked: number[] = []
  const warnings: string[] = []
  const sealed = (index: number): Uint8Array =>
    seal(Buffer.from(createShare(ciphertext, shares[index] as PrivateShare)), keys.publicKey)
  const holders: ShareHolder[] = answers.map((answer, index) => ({
    index,
    ...(isProcess ? { url: `http://holder-${index}` } : {}),
    async release() {
      asked.push(index)
      return (await answer(asked.filter(each => each === index).length)) ?? sealed(index)
    },
  }))
  const gather = (failures?: FailureTimes, signal?: AbortSignal) =>
    gatherShares(
      { publicKey, threshold, holders },
      {
        ...{ name, ciphertext, keys, log: { warn: text => void warnings.push(text) } },
        ...(signal === undefined ? {} : { signal }),
      },
      failures,
    )
  return { gather, asked, warnings, sealed }
}

const honest = async () => undefined
const never = () => new Promise<undefined>(() => undefined)
const dead = async (): Promise<undefined> => {
  throw new TypeError('some detail that may be secret')
}
const indexes = (valid: readonly { readonly index: number }[]) =>
  valid.map(({ index }) => index).sort()

describe('gathering shares', () => {
  test('asks as many holders as it takes, and no more', async () => {
    const { gather, asked, warnings } = await holdersOf([honest, honest, honest])
    expect(indexes(await gather())).toEqual([0, 1])
    expect([asked, warnings]).toEqual([[0, 1], []])
  })

  test('replaces one that fails or lies, names it, and asks it last from then on', async () => {
    const { gather, asked, warnings, sealed } = await holdersOf([
      dead,
      async () => sealed(3),
      honest,
      honest,
    ])
    const failures: FailureTimes = new Map()
    expect(indexes(await gather(failures))).toEqual([2, 3])
    expect(warnings).toEqual([
      'holder 0 at http://holder-0 gave no share of secret key: it failed with TypeError',
      'holder 1 at http://holder-1 gave no share of secret key: its share is that of holder 3',
    ])
    asked.length = 0
    expect(indexes(await gather(failures))).toEqual([2, 3])
    expect(asked).toEqual([2, 3])
  })

  test('asks another where one is slow, and does not wait for it', async () => {
    const { gather, asked, warnings } = await holdersOf([never, honest, honest])
    const failures: FailureTimes = new Map()
    const gathered = gather(failures)
    await jest.advanceTimersByTimeAsync(HEDGE_AFTER - 1)
    expect(asked).toEqual([0, 1])
    await jest.advanceTimersByTimeAsync(1)
    expect(indexes(await gathered)).toEqual([1, 2])
    expect(warnings).toEqual([
      `holder 0 at http://holder-0 has given no share in ${HEDGE_AFTER} ms, and is asked last from now on`,
    ])
    expect(indexes(await gather(failures))).toEqual([1, 2])
    expect(warnings).toHaveLength(1)
  })

  test('logs a slow holder once for as long as it is asked last, also where no other is left', async () => {
    const slow = () =>
      new Promise<undefined>(resolve => setTimeout(() => resolve(undefined), HEDGE_AFTER + 100))
    const { gather, warnings } = await holdersOf([slow, honest])
    const failures: FailureTimes = new Map()
    async function gatherSlowly(): Promise<void> {
      const gathered = gather(failures)
      await jest.advanceTimersByTimeAsync(HEDGE_AFTER + 100)
      expect(indexes(await gathered)).toEqual([0, 1])
    }
    for (const _ of [1, 2]) await gatherSlowly()
    expect(warnings).toHaveLength(1)
    jest.setSystemTime(Date.now() + 10_001)
    await gatherSlowly()
    expect(warnings).toHaveLength(2)
  })

  test('asks processes again, as long as they may be starting, when no other is left', async () => {
    const atFirst = (count: number) => (count < 3 ? dead() : honest())
    const { gather, asked, warnings } = await holdersOf([atFirst, dead, atFirst])
    const gathered = gather()
    await jest.advanceTimersByTimeAsync(250 + 500)
    expect(indexes(await gathered)).toEqual([0, 2])
    expect(asked.filter(each => each === 0)).toHaveLength(3)
    expect(warnings).toHaveLength(3)
  })

  test('does not ask one that refuses again, and waits for no other where too many do', async () => {
    const refusing = async (): Promise<undefined> => {
      throw new VaultError('it has another generation')
    }
    const { gather, asked } = await holdersOf([refusing, never, refusing])
    expect(await failureOf(gather())).toMatchObject({
      message: [
        'secret key: 0 of the 2 shares it takes are good',
        '  holder 0 at http://holder-0: it has another generation',
        '  holder 2 at http://holder-2: it has another generation',
      ].join('\n'),
    })
    expect(asked).toEqual([0, 1, 2])
  })

  test('names every holder where too few are good', async () => {
    const { gather } = await holdersOf([dead, honest, async () => new Uint8Array(99)], false)
    expect(await failureOf(gather())).toMatchObject({
      code: 'VAULT',
      message: [
        'secret key: 1 of the 2 shares it takes are good',
        '  holder 0: it failed with TypeError',
        '  holder 2: its share does not open',
      ].join('\n'),
    })
  })

  test('ends with its signal', async () => {
    const { gather } = await holdersOf([never, never])
    const controller = new AbortController()
    const gathering = gather(new Map(), controller.signal)
    controller.abort(new Error('over'))
    expect(await failureOf(gathering)).toMatchObject({ message: 'over' })
  })
})
