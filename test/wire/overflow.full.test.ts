import { expect, test } from '@jest/globals'
import { createClient, type Gap, type OverflowPolicy } from '../../index.js'
import { closeAfterEach } from '../support/closing.js'
import { feedID, startService } from '../support/service/service.js'
import { until } from '../support/waiting.js'

const closers = closeAfterEach()
const [busy, quiet] = [feedID(3, 1), feedID(3, 2)]

test('reports dropped of a feed that then publishes nothing are announced, though nothing is taken', async () => {
  const service = await startService({ feeds: [busy, quiet], signatures: 'dummy' })
  closers.push(() => service.close())
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  closers.push(() => client.close())
  const policies: readonly OverflowPolicy[] = ['drop-oldest', 'latest-per-feed']
  const streams = policies.map(overflow => {
    const stream = client.createStream([busy, quiet], { overflow, queue: 2 })
    const gaps: Gap[] = []
    stream.on('gap', gap => void gaps.push(gap))
    return { stream, gaps }
  })
  await Promise.all(streams.map(({ stream }) => stream.connect()))
  const times = [quiet, quiet, quiet, busy, busy, busy].map(id => service.publish(id).observed)
  await until(() => streams.every(({ stream }) => stream.getMetrics().dropped === 4))
  expect(streams.flatMap(({ gaps }) => gaps)).toEqual([])
  await until(() => streams.every(({ gaps }) => gaps.length === 2))
  const ends = streams.map(({ gaps }) => gaps.map(({ feedID: id, to, cause }) => [id, to, cause]))
  expect(ends).toEqual([
    [
      [quiet, times[2], 'overflow'],
      [busy, times[3], 'overflow'],
    ],
    [
      [quiet, times[1], 'overflow'],
      [busy, times[4], 'overflow'],
    ],
  ])
})
