import { describe, expect, test } from '@jest/globals'
import type { Connect } from '../../../client/index.js'
import { connectSocket } from '../../../client/transport/socket.js'
import { failureOf } from '../../support/waiting.js'
import {
  a,
  b,
  c,
  expectUnauthorised,
  feed,
  looks,
  open,
  start,
  upgrades,
} from '../../support/wire/feed-access.js'

describe('a stream fails as ever', () => {
  test.each([
    ['the only feed', [b]],
    ['all feeds', [b, feed(99)]],
  ])('where %s may not be read, but they are named', async (_name, feedIDs) => {
    const engine = await start()
    const { stream, seen } = open(engine, feedIDs)
    expectUnauthorised([await failureOf(stream.connect())], feedIDs)
    expect(seen.errors).toHaveLength(1)
    expect(stream.feedIDs).toEqual(feedIDs)
    expect(upgrades(engine)).toHaveLength(1)
    expect(looks(engine)).toHaveLength(1)
  })

  test.each([1, 2])(
    'where the keys are wrong, after one look for each of %d origins',
    async origins => {
      const engine = await start({ origins })
      const wsEndpoint = engine.origins.map(origin => origin.wsEndpoint).join(',')
      const { stream } = open(engine, [a, b], {}, { userSecret: 'wrong', wsEndpoint })
      const error = await failureOf(stream.connect())
      const [refusal = error] = (error.errors ?? []) as Error[]
      expect(refusal).toMatchObject({ code: 'AUTHENTICATION', feedIDs: [] })
      expect(looks(engine).length).toBeLessThanOrEqual(origins)
      expect(upgrades(engine)).toHaveLength(origins)
    },
  )

  test('where all feeds may be read, after a second try', async () => {
    const engine = await start()
    engine.origins[0]?.refuse(401)
    const { stream } = open(engine, [a, c])
    expect(await failureOf(stream.connect())).toMatchObject({ statusCode: 401, feedIDs: [] })
    expect(upgrades(engine)).toHaveLength(2)
    expect(looks(engine)).toHaveLength(1)
  })

  test('where those that may be read are refused too', async () => {
    const engine = await start()
    engine.origins[0]?.refuse(401, 3)
    const { stream } = open(engine)
    const error = await failureOf(stream.connect())
    expect(error).toMatchObject({ statusCode: 401, feedIDs: [] })
    // The refusal of all of them it is.
    expect(error.message).toContain(`feedIDs=${a},${b}`)
    expect(stream.feedIDs).toEqual([a, b, c])
    expect(upgrades(engine)).toHaveLength(3)
  })

  test.each([
    ['is no JSON', { status: 200, body: '<html></html>' }],
    ['is no object', { status: 200, body: 'null' }],
    ['is not there', { status: 200, body: '{}' }],
    ['is no list', { status: 200, body: '{"feeds":{}}' }],
    ['names no feed', { status: 200, body: '{"feeds":[{},7]}' }],
    ['is longer than any', { status: 200, body: Buffer.alloc(34_000_000, ' ') }],
    ['can not be had', { status: 500 }],
    ['is forbidden', { status: 403 }],
  ])('where the list of feeds %s', async (_name, failure) => {
    const engine = await start()
    engine.fail({ ...failure, path: '/api/v1/feeds', times: 100 })
    const { stream, seen } = open(engine)
    expect(await failureOf(stream.connect())).toMatchObject({ statusCode: 401, feedIDs: [] })
    expect(seen.errors).toHaveLength(1)
    expect(upgrades(engine)).toHaveLength(1)
    expect(looks(engine).length).toBeLessThanOrEqual(4)
  })
})

test('a network that fails when the stream connects with the other feeds is no fault of a feed, and is tried again', async () => {
  const engine = await start()
  let connects = 0
  const connect: Connect = async (target, events) => {
    if (++connects === 2) throw new Error('no way')
    return connectSocket(target, events)
  }
  const { stream, seen } = open(engine, [a, b, c], {}, { connect })
  await stream.connect()
  expectUnauthorised(seen.errors, [b])
  expect(upgrades(engine).map(({ status }) => status)).toEqual([401, 101])
  expect(looks(engine)).toHaveLength(1)
})
