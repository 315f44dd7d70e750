import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { CallerTurns } from '../../remote/caller-turns.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const { signal } = new AbortController()

/** An enclave whose thread works for `cost` milliseconds on each request, one after the other. */
function createEnclave(cost: number, waits = 20) {
  let freeAt = 0
  const turns = new CallerTurns(
    () => 0,
    () => Date.now(),
  )
  /** Makes a request. Resolves with how long it took, or with the error. */
  async function ask(caller: string, end = signal): Promise<number | Error> {
    const begun = Date.now()
    try {
      const leave = await turns.enter(caller, end)
      // The loop does what came before, then this, and then the API is waited for.
      freeAt = Math.max(freeAt, Date.now()) + cost
      await new Promise(resolve => setTimeout(resolve, freeAt - Date.now()))
      turns.charge(caller, cost)
      await new Promise(resolve => setTimeout(resolve, waits))
      leave()
      return Date.now() - begun
    } catch (thrown) {
      return thrown as Error
    }
  }
  return { turns, ask }
}

/** Has a caller make requests, so many at once, until `until`. A refusal is waited out. */
function keepAsking(ask: () => Promise<number | Error>, atOnce: number, until: number) {
  const outcomes: (number | Error)[] = []
  const loop = async (): Promise<void> => {
    while (Date.now() < until) {
      const outcome = await ask()
      outcomes.push(outcome)
      const { retryAfter = 0 } = outcome as { retryAfter?: number }
      if (outcome instanceof Error) await new Promise(resolve => setTimeout(resolve, retryAfter))
    }
  }
  const done = Promise.all(Array.from({ length: atOnce }, loop))
  return { outcomes, done }
}

const timesOf = (outcomes: readonly (number | Error)[]): number[] =>
  outcomes.filter(each => typeof each === 'number').sort((one, other) => one - other)
const median = (times: readonly number[]): number => times[times.length >> 1] as number

test('a caller that is alone has the whole enclave', async () => {
  const { ask } = createEnclave(5)
  const busy = keepAsking(() => ask('a'), 64, Date.now() + 5000)
  await jest.advanceTimersByTimeAsync(8000)
  await busy.done
  // A thousand fit into five seconds.
  expect(timesOf(busy.outcomes).length).toBeGreaterThan(980)
  expect(busy.outcomes.filter(each => each instanceof Error)).toEqual([])
})

test.each([1, 5, 20])('of %d ms a request, one caller does not slow another', async cost => {
  const { ask } = createEnclave(cost)
  const end = Date.now() + 20_000
  const hostile = keepAsking(() => ask('hostile'), 64, end)
  await jest.advanceTimersByTimeAsync(2000)
  const other = keepAsking(
    async () => {
      const time = await ask('other')
      await new Promise(resolve => setTimeout(resolve, 50))
      return time
    },
    1,
    end,
  )
  await jest.advanceTimersByTimeAsync(40_000)
  await Promise.all([hostile.done, other.done])
  expect(other.outcomes.filter(each => each instanceof Error)).toEqual([])
  expect(median(timesOf(other.outcomes))).toBeLessThanOrEqual(2 * (cost + 20))
  // The hostile one gets its part.
  expect(timesOf(hostile.outcomes).length * cost).toBeGreaterThan(4000)
  const refused = hostile.outcomes.find(each => each instanceof Error)
  expect(refused).toMatchObject({ code: 'RATE_LIMIT', isRetryable: true, mayHaveBeenSent: false })
})

test('two callers that use the same are served alike', async () => {
  const { ask } = createEnclave(5)
  const end = Date.now() + 10_000
  const both = ['a', 'b'].map(name => keepAsking(() => ask(name), 16, end))
  await jest.advanceTimersByTimeAsync(20_000)
  const [one, other] = both.map(({ outcomes }) => timesOf(outcomes).length) as [number, number]
  expect(Math.min(one, other) / Math.max(one, other)).toBeGreaterThan(0.8)
})

test('places that slow requests hold leave places for others', async () => {
  const { turns } = createEnclave(1)
  const held = Array.from({ length: 6 }, (_, caller) =>
    Array.from({ length: 64 }, () => turns.enter(`c${caller}`, signal).catch(() => undefined)),
  ).flat()
  await jest.advanceTimersByTimeAsync(1000)
  const leave = await turns.enter('new', signal)
  expect(typeof leave).toBe('function')
  void held
})

test('a request that is given up no longer waits', async () => {
  const { ask } = createEnclave(20)
  const hostile = keepAsking(() => ask('hostile'), 40, Date.now() + 3000)
  await jest.advanceTimersByTimeAsync(500)
  void ask('other')
  await jest.advanceTimersByTimeAsync(500)
  const gone = new AbortController()
  const waiting = ask('hostile', gone.signal)
  gone.abort(new Error('gone'))
  await jest.advanceTimersByTimeAsync(10)
  expect(String(await waiting)).toMatch(/gone|part of the enclave/)
  await jest.advanceTimersByTimeAsync(20_000)
  await hostile.done
  expect(jest.getTimerCount()).toBe(0)
})

test('a caller that asks again at once has its refusals held back, and later not sealed', async () => {
  const { turns } = createEnclave(5)
  const answered: boolean[] = []
  for (let count = 0; count < 70; count++)
    void turns.holdRefusal('hostile', 5000, signal).then(isSealed => answered.push(isSealed))
  await jest.advanceTimersByTimeAsync(10)
  expect(answered).toEqual(Array(6).fill(false))
  await jest.advanceTimersByTimeAsync(1000)
  expect(answered.filter(isSealed => isSealed)).toHaveLength(64)
  // A refusal that says less is held for less, and one of a client that has gone for no time.
  const short = turns.holdRefusal('hostile', 50, signal)
  await jest.advanceTimersByTimeAsync(51)
  expect(await short).toBe(true)
  const gone = new AbortController()
  const hung = turns.holdRefusal('hostile', 5000, gone.signal).catch(thrown => String(thrown))
  gone.abort(new Error('gone'))
  expect(await hung).toContain('gone')
  expect(jest.getTimerCount()).toBe(0)
})

test('refusals are charged to who caused them', async () => {
  let worked = 0
  const turns = new CallerTurns(
    () => worked,
    () => Date.now(),
  )
  const leave = await turns.enter('other', signal)
  for (let count = 0; count < 200; count++) {
    void turns.holdRefusal('hostile', 10, signal)
    await jest.advanceTimersByTimeAsync(5)
    worked += 5
  }
  leave()
  // The other has been charged for half at most, so that it still starts at once.
  let isStarted = false
  void turns.enter('other', signal).then(() => {
    isStarted = true
  })
  await Promise.resolve()
  await Promise.resolve()
  expect(isStarted).toBe(true)
})

test('who waits for slow servers is not charged for the work of another', async () => {
  const { turns, ask } = createEnclave(50)
  for (let count = 0; count < 24; count++) await turns.enter('slow', signal)
  const hostile = keepAsking(() => ask('hostile'), 3, Date.now() + 10_000)
  await jest.advanceTimersByTimeAsync(9000)
  let isStarted = false
  void turns.enter('slow', signal).then(() => {
    isStarted = true
  })
  await jest.advanceTimersByTimeAsync(0)
  expect(isStarted).toBe(true)
  await jest.advanceTimersByTimeAsync(10_000)
  // The hostile one has got 700 ms a second, and what was under way.
  expect(timesOf(hostile.outcomes).length * 50).toBeLessThan(8000)
})
