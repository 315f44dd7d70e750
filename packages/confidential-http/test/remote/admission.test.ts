import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { Admission } from 'sluice/internal'
import { overloaded, Rejection } from '../../remote/protocol.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

interface Asking {
  readonly address?: string
  readonly caller?: string
  readonly isKnown?: boolean
}

/** Asks for work, and writes down who began, in order. */
function createAsking(admission: Admission) {
  const begun: string[] = []
  const leaves: (() => void)[] = []
  function ask(name: string, { address = 'a', caller, isKnown = false }: Asking = {}) {
    const life = new AbortController()
    const entered = admission
      .enter({ address, caller: () => caller, isKnown: () => isKnown, signal: life.signal })
      .then(leave => {
        begun.push(name)
        leaves.push(leave)
      })
    entered.catch(() => undefined)
    return { entered, cancel: () => life.abort() }
  }
  /** Ends the work that runs, until none begins any more. */
  async function work(): Promise<void> {
    for (;;) {
      await Promise.resolve()
      await Promise.resolve()
      const leave = leaves.shift()
      if (leave === undefined) return
      leave()
    }
  }
  return { ask, begun, leaves, work }
}

const admissionOf = (width: number): Admission => new Admission(width, overloaded, () => Date.now())

describe('admission to curve work', () => {
  test('admits as much at once as it is wide', async () => {
    const { ask, begun, leaves } = createAsking(admissionOf(2))
    for (const name of ['1', '2', '3']) ask(name, { caller: 'c' })
    await Promise.resolve()
    await Promise.resolve()
    expect(begun).toEqual(['1', '2'])
    leaves.shift()?.()
    await Promise.resolve()
    await Promise.resolve()
    expect(begun).toEqual(['1', '2', '3'])
  })

  test('admits callers before strangers, who asked earlier, but for one of four', async () => {
    const { ask, begun, work } = createAsking(admissionOf(1))
    for (let index = 0; index < 30; index++) ask(`stranger ${index}`)
    for (let index = 0; index < 5; index++) ask('caller', { caller: 'c', address: 'b' })
    await work()
    const callers = begun.map((name, at) => (name === 'caller' ? at : -1)).filter(at => at >= 0)
    expect(callers).toEqual([1, 2, 3, 5, 6])
    expect(begun).toHaveLength(35)
  })

  test('admits callers in turn, however many tasks one of them has', async () => {
    const { ask, begun, work } = createAsking(admissionOf(1))
    for (let index = 0; index < 64; index++) ask('hostile', { caller: 'h' })
    for (const name of ['first', 'second']) ask(name, { caller: name })
    ask('first again', { caller: 'first' })
    await work()
    // One task was running when the others came.
    expect(begun.slice(0, 7)).toEqual(
      'hostile hostile first second hostile first~again hostile'
        .split(' ')
        .map(each => each.replace('~', ' ')),
    )
  })

  test('admits strangers of each address in turn', async () => {
    const { ask, begun, work } = createAsking(admissionOf(1))
    for (let index = 0; index < 30; index++) ask('busy', { address: 'a' })
    for (const address of ['b', 'c']) ask(address, { address })
    await work()
    // The first had begun before others asked.
    expect(begun.slice(1, 5)).toEqual(['busy', 'b', 'c', 'busy'])
  })

  test('bounds the rate of the strangers of an address, and of one that callers have too less', async () => {
    const { ask, begun, work } = createAsking(admissionOf(4))
    for (let index = 0; index < 200; index++) ask('a')
    for (let index = 0; index < 200; index++) ask('known', { address: 'k', isKnown: true })
    await work()
    const count = (name: string): number => begun.filter(each => each === name).length
    expect([count('a'), count('known')]).toEqual([40, 200])
    for (let passed = 0; passed < 1000; passed += 10) {
      jest.advanceTimersByTime(10)
      await work()
    }
    expect(count('a')).toBeGreaterThanOrEqual(58)
    expect(count('a')).toBeLessThanOrEqual(60)
  })

  test('rejects strangers of whom too many wait, and no proven connection', async () => {
    const admission = admissionOf(1)
    const { ask } = createAsking(admission)
    ask('runs', { caller: 'c' })
    for (let index = 0; index < 256; index++) ask('waits')
    const error = await ask('one more').entered.catch(thrown => thrown)
    expect(error).toBeInstanceOf(Rejection)
    expect(error).toMatchObject({ status: 503, mayHaveBeenSent: false })
    const others = [0, 1, 2].map(address =>
      Array.from({ length: 256 }, () => ask('waits', { address: `n${address}` })),
    )
    // There is room for one of another address: the newest of a longest line goes.
    let isIn = true
    ask('more', { address: 'x' }).entered.catch(() => {
      isIn = false
    })
    const outcomes = await Promise.all(
      others
        .flat()
        .map(({ entered }) =>
          Promise.race([entered, Promise.resolve('waits')]).catch(thrown => thrown),
        ),
    )
    expect(outcomes.filter(each => each instanceof Rejection).length).toBeLessThanOrEqual(1)
    expect(isIn).toBe(true)
    let isRejected = false
    for (let index = 0; index < 3000; index++)
      ask('caller', { caller: 'c' }).entered.catch(() => {
        isRejected = true
      })
    await Promise.resolve()
    expect(isRejected).toBe(false)
  })

  test('forgets who has gone, and makes room for others', async () => {
    const { ask, begun, work } = createAsking(admissionOf(1))
    ask('runs', { caller: 'c' })
    const waiting = Array.from({ length: 256 }, () => ask('gone'))
    for (const each of waiting) each.cancel()
    await expect(waiting[0]?.entered).rejects.toMatchObject({ name: 'AbortError' })
    ask('stays')
    await work()
    expect(begun).toEqual(['runs', 'stays'])
  })
})
