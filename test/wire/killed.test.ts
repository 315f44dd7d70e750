import { expect, test } from '@jest/globals'
import {
  type Chain,
  consumers,
  cursorsOf,
  feeds,
  reports,
  runChain,
} from '../support/wire/killed.js'

test.each(['a handler that returns a promise', 'manual acknowledgements'] as const)(
  'of a stream that is killed with SIGKILL nothing is lost: %s',
  async name => {
    const options = { saveInterval: 600_000 }
    expect(await runChain({ name, consumer: consumers[name], options }, [reports(7)])).toEqual([])
  },
)

test('so it is where the first save of each process fails', async () => {
  const chain: Chain = {
    name: 'failing',
    consumer: consumers['for await'],
    options: { saveInterval: 600_000 },
    isFailing: true,
  }
  expect(await runChain(chain, [reports(15)])).toEqual([])
})

test('each process of a stream that is killed again and again comes on, however long its saveInterval is', async () => {
  const chain: Chain = {
    name: 'loop',
    consumer: consumers['a handler'],
    options: { saveInterval: 600_000 },
  }
  const hasMoved = (_lines: number, before: Readonly<Record<string, number>>): boolean =>
    feeds.every(feed => (cursorsOf('loop')[feed] ?? 0) > (before[feed] ?? 0))
  expect(await runChain(chain, [reports(10), hasMoved, hasMoved])).toEqual([])
})
