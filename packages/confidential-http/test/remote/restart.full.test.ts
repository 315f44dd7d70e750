// What a caller and an enclave do where others have the key of the enclave, or it is started anew meanwhile.
import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, type Runtime } from '../../index.js'
import { fetchBootKey, postTo, seal } from '../support/raw-caller.js'
import { type Relay, startRelay } from '../support/relay.js'
import { inputOf, remoteRuntime } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

const client = new ConfidentialHTTPClient()
let world: World
const made: AsyncDisposable[] = []
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterEach(async () => {
  await Promise.all(made.splice(0).map(each => each[Symbol.asyncDispose]()))
})
afterAll(() => world.close())

const hitsOf = (path: string) => world.hits.filter(hit => hit.path === path)
const fetchKey = (url = world.enclaveURL) => fetchBootKey(url, world.enclavePublicKey)

async function relayTo(handle: Parameters<typeof startRelay>[1]): Promise<Relay> {
  const relay = await startRelay(world.enclaveURL, handle)
  made.push(relay)
  return relay
}

function runtimeTo({ url }: { readonly url: string }): Runtime {
  const runtime = remoteRuntime(world, { url })
  made.push(runtime)
  return runtime
}

const send = (runtime: Runtime, path: string) =>
  client.sendRequestAsync(runtime, inputOf(world, path))

describe('what was recorded', () => {
  test('is not carried out by another enclave with the same key', async () => {
    const other = await world.startAnother()
    const recorded = seal(world, { bootKey: await fetchKey(), path: '/both' })
    const answers = [await postTo(world.enclaveURL, recorded), await postTo(other, recorded)]
    expect(answers.map(({ status }) => status)).toEqual([200, 410])
    expect(hitsOf('/both')).toHaveLength(1)
  })
})

describe('a caller', () => {
  test('sends nothing again where the enclave was started anew while it was asked', async () => {
    const relay = await relayTo(async ({ path, forward }) => {
      const answer = await forward()
      if (path !== '/v2/requests') return answer
      await world.restart()
      return { status: 410, body: Buffer.from('x') }
    })
    const failure = await failureOf(send(runtimeTo(relay), '/amid'))
    expect(failure).toMatchObject({ mayHaveBeenSent: true })
    expect(failure.message).toMatch(
      /was started anew while it was asked; the request may have been/,
    )
    expect(hitsOf('/amid')).toHaveLength(1)
  })

  test('sends nothing again where another enclave with the same key answers in its place', async () => {
    const other = await world.startAnother()
    const relay = await relayTo(async ({ path, forward }) => {
      const isFirst = relay.taken.length === 1
      if (path === '/v2/boot-key') return forward(isFirst ? undefined : other)
      await forward()
      return { status: 410, body: Buffer.from('x') }
    })
    const failure = await failureOf(send(runtimeTo(relay), '/several'))
    expect(failure).toMatchObject({ mayHaveBeenSent: true })
    expect(failure.message).toMatch(/is one of several with the same key/)
    expect(hitsOf('/several')).toHaveLength(1)
  })
})
