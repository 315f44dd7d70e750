import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import type { StreamCall, StreamReply } from '../../client/call.js'
import type { Handler } from '../../client/plugin.js'
import type { StreamScope } from '../../client/scope.js'
import { AuthenticationError, type Feed, feedAccess, type Status } from '../../index.js'

beforeEach(() => void jest.useFakeTimers())
afterEach(() => void jest.useRealTimers())

const [a, b] = [`0x0003${'aa'.repeat(30)}`, `0x0003${'bb'.repeat(30)}`] as const
const url = `wss://ws.example/api/v1/ws?feedIDs=${a},${b}`
const refusal = new AuthenticationError('no', { statusCode: 401 })

type ListFeeds = StreamScope['listFeeds']

/** What a call down to the wire is refused until it is for `a` alone. */
function world(listFeeds: ListFeeds, delays: number[] = []) {
  const dialled: string[] = []
  const looks: number[] = []
  const watchers = new Set<(status: Status) => void>()
  const wire: Handler = async call => {
    dialled.push(call.url)
    await sleep(delays.shift() ?? 0)
    if (call.url.includes(b)) throw refusal
    for (const watcher of watchers)
      watcher({ type: 'connected', origin: 'wss://ws.example', host: 'ws.example' })
    return { kind: 'stream', lasted: 1, error: new Error('closed') } satisfies StreamReply
  }
  const handler = feedAccess().attempt?.(wire) as Handler

  /** A shard of a stream, of which the plugin needs this much. */
  function shard(ask: ListFeeds = listFeeds) {
    const controller = new AbortController()
    const { signal } = controller
    const denied: string[] = []
    const scope = {
      log: {},
      get feedIDs() {
        return [a, b].filter(feedID => !denied.includes(feedID))
      },
      listFeeds(abort: AbortSignal) {
        looks.push(performance.now())
        return ask(abort)
      },
      watch(listener: (status: Status) => void) {
        watchers.add(listener)
        return () => void watchers.delete(listener)
      },
      deny: (feedIDs: readonly string[]) => void denied.push(...feedIDs),
    } as unknown as StreamScope
    const call: StreamCall = {
      kind: 'stream',
      operation: 'stream',
      method: 'GET',
      url,
      headers: new Headers(),
      signal,
      scope,
    }
    const dial = () =>
      handler(call).then(
        () => 'opened',
        error => error,
      )
    return { dial, denied, end: () => controller.abort(new Error('over')) }
  }
  return { shard, dialled, looks, watchers }
}

const sleep = (ms: number) =>
  ms === 0 ? undefined : new Promise(resolve => setTimeout(resolve, ms))
const never: ListFeeds = () => new Promise(() => undefined)
const all = async (): Promise<Feed[]> => [{ feedID: a }, { feedID: b }]
const some = async (): Promise<Feed[]> => [{ feedID: a }]

test('a list that never comes is waited for five seconds, and the refusal stands', async () => {
  const { shard, dialled } = world(never)
  const { dial, denied } = shard()
  const dialling = dial()
  await jest.advanceTimersByTimeAsync(4999)
  expect(await Promise.race([dialling, 'waits'])).toBe('waits')
  await jest.advanceTimersByTimeAsync(2)
  expect(await dialling).toBe(refusal)
  expect({ dialled, denied }).toEqual({ dialled: [url], denied: [] })
  expect(jest.getTimerCount()).toBe(0)
})

test('each refusal has one look, since what may be read may have changed', async () => {
  const { shard, looks } = world(all)
  const { dial } = shard()
  for (let second = 1; second <= 5; second++) {
    expect(await dial()).toBe(refusal)
    expect(looks).toHaveLength(second)
    await jest.advanceTimersByTimeAsync(1000)
  }
})

test('those who are refused at the same time share a look, and it outlives the one it was made for', async () => {
  const { shard, looks } = world(some)
  const first = shard(never)
  const others = [shard(), shard()]
  const dialling = [first, ...others].map(({ dial }) => dial())
  await jest.advanceTimersByTimeAsync(100)
  expect(looks).toHaveLength(1)
  first.end()
  const [ended, ...opened] = await Promise.all(dialling)
  expect(ended).toMatchObject({ message: 'over' })
  expect(opened).toEqual(['opened', 'opened'])
  expect(looks).toHaveLength(2)
  expect(others.map(({ denied }) => denied)).toEqual([[b], [b]])
  expect(jest.getTimerCount()).toBe(0)
})

test('a refusal that was explained does not stand in the way of the next', async () => {
  const { shard, looks, watchers } = world(some)
  for (let count = 0; count < 3; count++) expect(await shard().dial()).toBe('opened')
  expect(looks).toHaveLength(3)
  expect(watchers.size).toBe(0)
})

test('what one connection of a stream has found out, another that is refused later need not ask', async () => {
  const { shard, dialled, looks } = world(some, [10, 50, 10, 10])
  const { dial, denied } = shard()
  const dialling = [dial(), dial()]
  await jest.advanceTimersByTimeAsync(100)
  expect(await Promise.all(dialling)).toEqual(['opened', 'opened'])
  expect(looks).toHaveLength(1)
  expect(denied).toEqual([b])
  expect(dialled.map(each => each.includes(b))).toEqual([true, true, false, false])
})

test('what a stream is refused no more is not dialled, and the URL is otherwise as it was', async () => {
  const { shard, dialled } = world(some)
  const { dial, denied } = shard()
  denied.push(b)
  expect(await dial()).toBe('opened')
  expect(dialled).toEqual([`wss://ws.example/api/v1/ws?feedIDs=${a}`])
})
