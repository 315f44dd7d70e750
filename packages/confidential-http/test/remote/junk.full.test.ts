import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { whenEnded } from '@sluice/test-support/processes.js'
import { pause } from '@sluice/test-support/waiting.js'
import { formatKey } from 'sluice/internal'
import { ConfidentialHTTPClient, type Runtime } from '../../index.js'
import { fetchBootKey } from '../support/raw-caller.js'
import { inputOf, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const CONNECTIONS = 60
const ROUNDS = 6
const REQUESTS = 12

let world: World
let runtime: Runtime
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
  runtime = remoteRuntime(world)
})
afterAll(async () => {
  await runtime.close()
  await world.close()
})

const client = new ConfidentialHTTPClient()
async function latencies(): Promise<number[]> {
  const times: number[] = []
  for (let count = 0; count < REQUESTS; count++) {
    const begun = performance.now()
    await client.sendRequestAsync(runtime, inputOf(world, '/', '10s'))
    times.push(performance.now() - begun)
  }
  return times
}

interface Junk {
  readonly count: number
  readonly statuses: Readonly<Record<string, number>>
}

async function withJunk<Value>(
  localAddress: string,
  work: () => Promise<Value>,
): Promise<{ readonly value: Value; readonly junk: Junk; readonly seconds: number }> {
  const bootKey = formatKey(await fetchBootKey(world.enclaveURL, world.enclavePublicKey))
  const { enclaveURL: url, enclavePublicKey } = world
  const given = { url, enclavePublicKey, bootKey, connections: CONNECTIONS, localAddress }
  const child = fork(join(__dirname, '../support/junk-process.mjs'), {
    env: { PATH: process.env.PATH, JUNK: JSON.stringify(given) },
    execArgv: [],
  })
  try {
    await once(child, 'message')
    const begun = performance.now()
    child.send('start')
    await pause(300)
    const value = await work()
    const answer = once(child, 'message')
    child.send('count')
    const [junk]: Junk[] = await answer
    if (junk === undefined) throw new Error('the stranger does not say what it did')
    return { value, junk, seconds: (performance.now() - begun) / 1000 }
  } finally {
    child.kill()
    await whenEnded(child)
  }
}

const median = (times: readonly number[]): number =>
  times.toSorted((a, b) => a - b)[times.length >> 1] as number

test('junk on 60 connections takes no more work than it is given, and does not slow callers', async () => {
  await latencies()
  const [quiet, busy]: [number[], number[]] = [[], []]
  for (let round = 0; round < ROUNDS; round++) {
    quiet.push(...(await latencies()))
    // Each round from an address of its own, as fresh as an attacker's.
    const { value, junk, seconds } = await withJunk(`127.0.2.${round + 1}`, latencies)
    busy.push(...value)
    const worked = Object.values(junk.statuses).reduce((sum, each) => sum + each, 0)
    // 40 at once, then 20 a second; a connection that is answered waits with its next piece of work.
    expect(worked).toBeLessThan(40 + 20 * seconds + CONNECTIONS)
    expect(worked).toBeGreaterThan(20)
  }
  const ratio = median(busy) / median(quiet)
  console.log(
    `median ${median(quiet).toFixed(0)} ms, with junk ${median(busy).toFixed(0)} ms: ${ratio.toFixed(2)}`,
  )
  expect(ratio).toBeLessThan(1.8)
}, 180_000)
