import { promisify } from 'node:util'
import { afterEach, describe, expect, jest, test } from '@jest/globals'
import { takeTurn } from '../../testing/turn.js'
import { startVirtualTime, type VirtualTime } from '../../testing/virtual-time.js'

const real = { setTimeout, setInterval, clearTimeout, clearInterval, performance }
const now = Date.now
const { timeout } = AbortSignal

function expectRealTime(): void {
  const { setTimeout, setInterval, clearTimeout, clearInterval, performance } = globalThis
  expect({ setTimeout, setInterval, clearTimeout, clearInterval, performance }).toEqual(real)
  expect(globalThis.setTimeout).toBe(real.setTimeout)
  expect([Date.now, AbortSignal.timeout]).toEqual([now, timeout])
}

function event(): { readonly promise: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined
  const promise = new Promise<void>(done => {
    resolve = done
  })
  return { promise, resolve }
}

let time: VirtualTime | undefined
afterEach(() => {
  time?.end()
  expectRealTime()
})

describe('virtual time', () => {
  test('is not installed twice, and the error says where it was installed', async () => {
    time = startVirtualTime()
    expect(startVirtualTime).toThrow(
      /^virtual time is installed already, by .*virtual-time\.test\.ts.*: that test has to end/,
    )
    // A module registry of its own has a copy of the module.
    await jest.isolateModulesAsync(async () => {
      const copy = await import('../../testing/virtual-time.js')
      expect(copy.startVirtualTime).not.toBe(startVirtualTime)
      expect(copy.startVirtualTime).toThrow('virtual time is installed already')
    })
    // The first one works on.
    const order: string[] = []
    setTimeout(() => order.push('a timer'), 1000)
    await time.pass(1000)
    expect([order, Date.now()]).toEqual([['a timer'], 1_700_000_001_000])
  })

  test('can be installed again after its end, and its end does not end the next one', async () => {
    const first = startVirtualTime()
    first.end()
    expectRealTime()
    time = startVirtualTime()
    first.end()
    expect(setTimeout).not.toBe(real.setTimeout)
    await expect(first.pass(1)).rejects.toThrow('this virtual time has ended')
  })

  test('that ends while a test waits rejects with the reason', async () => {
    time = startVirtualTime()
    const wait = time.until(() => false, 1e9)
    setInterval(() => undefined, 1)
    time.end(new Error('enough'))
    await expect(wait).rejects.toThrow('enough')
  })

  test('leaves timers from before it to the platform', async () => {
    const ran: string[] = []
    const timer = setTimeout(() => ran.push('cleared'), 1)
    time = startVirtualTime()
    clearTimeout(timer)
    time.end()
    await new Promise(resolve => setTimeout(resolve, 2))
    expect(ran).toEqual([])
  })

  test('has the form of timers that returns a promise', async () => {
    time = startVirtualTime()
    const wait = promisify(setTimeout)(5000, 'value')
    await time.pass(5000)
    expect(await wait).toBe('value')
  })
})

describe('a test in virtual time', () => {
  test('leaves the clocks and timers of other code alone', async () => {
    const begun = event()
    const goOn = event()
    const own = takeTurn('first', async turn => {
      const time = turn.startTime()
      let ran = false
      setTimeout(() => {
        ran = true
      }, 3_600_000)
      begun.resolve()
      await goOn.promise
      const before = [ran, performance.now(), Date.now()]
      await time.pass(3_600_000)
      const after = [ran, performance.now(), Date.now()]
      time.end()
      return [before, after]
    })
    await begun.promise
    // A timer of the platform, which nobody has to move.
    const timer = setTimeout(() => undefined, 1e6)
    expect(timer).toBeInstanceOf(real.setTimeout(() => undefined, 0).constructor)
    clearTimeout(timer)
    expect(timer).toHaveProperty('_destroyed', true)
    await new Promise(resolve => setTimeout(resolve, 1))
    await promisify(setTimeout)(1)
    expect(performance).toBe(real.performance)
    expect(Math.abs(Date.now() - now())).toBeLessThan(1e9)
    goOn.resolve()
    expect(await own).toEqual([
      [false, 0, 1_700_000_000_000],
      [true, 3_600_000, 1_700_003_600_000],
    ])
  })

  test('that a runner gave up is ended by the next one, before it begins', async () => {
    const order: string[] = []
    const begun = event()
    const first = takeTurn('first', async turn => {
      const time = turn.startTime()
      setInterval(() => undefined, 1)
      begun.resolve()
      try {
        await time.until(() => false, 1e12)
      } finally {
        await new Promise(setImmediate)
        order.push('the first is over')
      }
    })
    await begun.promise
    const second = takeTurn('second', async turn => {
      order.push('the second begins')
      const time = turn.startTime()
      await time.pass(1000)
      time.end()
      return performance === real.performance
    })
    await expect(first).rejects.toThrow(/^first was ended by second, which began before/)
    expect(await second).toBe(true)
    expect(order).toEqual(['the first is over', 'the second begins'])
  })

  test('that is ended between two worlds begins no other', async () => {
    const waiting = event()
    const first = takeTurn('first', async turn => {
      turn.startTime().end()
      await waiting.promise
      turn.startTime().end()
    })
    const others = ['second', 'third'].map(name =>
      takeTurn(name, async turn => {
        turn.startTime().end()
        return name
      }),
    )
    waiting.resolve()
    const outcomes = await Promise.allSettled([first, ...others])
    expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'fulfilled'])
  })
})
