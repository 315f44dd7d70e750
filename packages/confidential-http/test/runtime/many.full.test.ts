import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { ConfidentialHTTPClient } from '../../index.js'
import { inputOf, localRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const client = new ConfidentialHTTPClient()
let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(() => world.close())

test('a hundred requests at once do not make a thread seem dead: what is too much is told of each', async () => {
  const runtime = localRuntime(world)
  expect((await client.sendRequestAsync(runtime, inputOf(world, '/'))).statusCode).toBe(200)
  const lines: string[] = []
  const outcomes = await Promise.allSettled(
    Array.from({ length: 100 }, () =>
      client.sendRequestAsync(runtime, inputOf(world, '/', '700ms')),
    ),
  )
  for (const outcome of outcomes) {
    if (outcome.status === 'fulfilled') lines.push(String(outcome.value.statusCode))
    else lines.push((outcome.reason as Error).message)
  }
  expect(lines.filter(line => /thread/.test(line))).toEqual([])
  expect((await client.sendRequestAsync(runtime, inputOf(world, '/'))).statusCode).toBe(200)
  await runtime.close()
})
