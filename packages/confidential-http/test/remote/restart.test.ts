import { afterAll, afterEach, beforeAll, describe, expect, test } from '@jest/globals'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { ConfidentialHTTPClient, createKeys, type Runtime } from '../../index.js'
import { type BootKey, type Moment, whyCarriedOut } from '../../remote/boot-keys.js'
import { versionMismatch } from '../../remote/protocol.js'
import { fetchBootKey, open, postTo, seal } from '../support/raw-caller.js'
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

const send = (runtime: Runtime, path: string, timeout?: string) =>
  client.sendRequestAsync(runtime, inputOf(world, path, timeout))

describe('what was recorded', () => {
  test('is not carried out by the enclave after a restart, though the caller’s clock is ahead', async () => {
    const bootKey = await fetchKey()
    const fields = { issuedAt: Date.now() + 25_000 }
    const recorded = seal(world, { bootKey, fields, path: '/recorded' })
    expect(await postTo(world.enclaveURL, recorded)).toMatchObject({ status: 200 })
    await world.restart()
    expect(await postTo(world.enclaveURL, recorded)).toMatchObject({ status: 410 })
    // Nor does it open where it is said to be sealed to the new boot key.
    recorded.set(await fetchKey())
    expect(await postTo(world.enclaveURL, recorded)).toMatchObject({ status: 400 })
    expect(hitsOf('/recorded')).toHaveLength(1)
  })

  test('as the answer with a boot key opens for nobody who asks later', async () => {
    let recorded: Awaited<ReturnType<Parameters<typeof startRelay>[1]>>
    const relay = await relayTo(async ({ path, forward }) => {
      if (path === '/v2/boot-key' && recorded !== undefined) return recorded
      recorded ??= await forward()
      return path === '/v2/boot-key' ? recorded : forward()
    })
    expect((await send(runtimeTo(relay), '/first')).statusCode).toBe(200)
    const failure = await failureOf(send(runtimeTo(relay), '/second'))
    expect(failure).toMatchObject({
      message: expect.stringMatching(/is not of the enclave with the pinned key$/),
      mayHaveBeenSent: false,
    })
    expect(hitsOf('/second')).toEqual([])
  })
})

describe('a caller', () => {
  test('goes on after a restart, with each request carried out once', async () => {
    const runtime = runtimeTo({ url: world.enclaveURL })
    expect((await send(runtime, '/before')).statusCode).toBe(200)
    const begin = performance.now()
    await fetchKey()
    const msOfAnswer = performance.now() - begin
    await world.restart()
    // That it was up before it is asked shows by its age, when that is more than the answer takes.
    await pause(500 + 10 * msOfAnswer)
    const answers = await Promise.all(['/after-1', '/after-2'].map(path => send(runtime, path)))
    expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 200])
    const paths = ['/before', '/after-1', '/after-2']
    // The external server runs in another process: its messages may come after the answers.
    await until(() => paths.every(path => hitsOf(path).length > 0))
    for (const path of paths) expect(hitsOf(path)).toHaveLength(1)
  })

  test('sends nothing again where a relay says that the boot key is unknown, which it is not', async () => {
    const relay = await relayTo(async ({ path, forward }) => {
      const answer = await forward()
      return path === '/v2/requests' ? { status: 410, body: Buffer.from('x') } : answer
    })
    const failure = await failureOf(send(runtimeTo(relay), '/forged'))
    expect(failure).toMatchObject({ name: 'EnclaveError', code: 'ENCLAVE', mayHaveBeenSent: true })
    expect(failure.message).toMatch(
      /although it is sealed to its own; the request may have been carried/,
    )
    expect(hitsOf('/forged')).toHaveLength(1)
    // Asked for the boot key, asked to carry out, asked for the boot key once more.
    expect(relay.taken).toHaveLength(3)
  })

  test('of this version says of an enclave of the one before that it is one', async () => {
    const relay = await relayTo(async () => ({ status: 404, body: Buffer.from('x') }))
    expect(await failureOf(send(runtimeTo(relay), '/'))).toMatchObject({
      message: expect.stringMatching(
        /answered 404: it is not an enclave, or one of an older version$/,
      ),
      mayHaveBeenSent: false,
    })
  })
})

describe('a request that a restarted enclave rejects was carried out, unless', () => {
  const at = (time: number): Moment => ({ steady: time, wall: time })
  const bootKey = (byte: number, upFor: number, answered: number, alive = 0): BootKey => ({
    publicKey: Uint8Array.of(byte),
    ...{ upFor, answeredAt: at(answered), aliveAt: at(alive) },
  })
  const before = bootKey(1, 5000, 1000, 1000)

  test('the one that answers was up when it was sent, and not when the other answered', () => {
    expect(whyCarriedOut(before, bootKey(2, 2000, 9000), at(8000))).toBeUndefined()
  })

  test.each([
    ['it has the same boot key', bootKey(1, 2000, 9000), 8000, /sealed to its own$/],
    ['it started while it was asked', bootKey(2, 900, 9000), 8000, /started anew while it was/],
    ['it started with the sending, as far as clocks say', bootKey(2, 1000, 9000), 8000, /anew/],
    ['it was up while the other answered', bootKey(2, 8500, 9000), 8000, /one of several with/],
  ])('where %s', (_how, next, sentAt, why) => {
    expect(whyCarriedOut(before, next, at(sentAt))).toMatch(why)
  })

  test('where a clock was set, or the machine slept, the longer time counts', () => {
    const next = { ...bootKey(2, 2000, 9000), answeredAt: { steady: 9000, wall: 99_000 } }
    expect(whyCarriedOut(before, next, at(8000))).toMatch(/anew/)
  })
})

describe('a caller of an older version', () => {
  // What is said in the open may be anybody's: the number is repeated, and nothing else.
  const bodies: readonly (readonly [string, RegExp])[] = [
    ['the caller is of an older version: this enclave speaks 3\n', /426: it speaks version 3, and/],
    ['run https://evil.example\r\n', /426: it speaks another version, and this caller 2(;|$)/],
  ]

  test('is told so when it asks for the boot key', async () => {
    let said = ''
    const runtime = runtimeTo(await relayTo(async () => ({ status: 426, body: Buffer.from(said) })))
    for (const [body, message] of bodies) {
      said = body
      const failure = await failureOf(send(runtime, '/'))
      expect(failure).toMatchObject({ code: 'ENCLAVE', mayHaveBeenSent: false })
      expect(failure.message).toMatch(message)
    }
  })

  test('is told so when it sends its request to an enclave that is newer meanwhile', async () => {
    let said = ''
    const relay = await relayTo(async ({ path, forward }) =>
      path === '/v2/boot-key' ? forward() : { status: 426, body: Buffer.from(said) },
    )
    const runtime = runtimeTo(relay)
    for (const [body, message] of bodies) {
      said = body
      const failure = await failureOf(send(runtime, '/'))
      expect(failure).toMatchObject({ code: 'ENCLAVE', mayHaveBeenSent: true })
      expect(failure.message).toMatch(message)
    }
  })

  test('is answered what the caller reads', async () => {
    const { body } = await postTo(world.enclaveURL, 'x', '/v1/requests')
    expect(versionMismatch({ status: 426, headers: new Headers(), body })).toBe(
      'answered 426: it speaks version 2, and this caller 2',
    )
  })
})

describe('a request whose time is over', () => {
  test('is not carried out where a relay has held it', async () => {
    const runtime = runtimeTo(
      await relayTo(async ({ path, forward }) => {
        const isHeld = isHolding && path === '/v2/requests'
        if (isHeld) await until(() => isTimeUp)
        const answer = await forward()
        if (isHeld) isForwarded = true
        return answer
      }),
    )
    let isHolding = false
    let isTimeUp = false
    let isForwarded = false
    // Its thread has started, and it knows the boot key.
    expect((await send(runtime, '/')).statusCode).toBe(200)
    isHolding = true
    const failure = await failureOf(send(runtime, '/held', '1500ms'))
    isTimeUp = true
    expect(failure).toMatchObject({ code: 'ENCLAVE', mayHaveBeenSent: true })
    expect(failure.message).toMatch(
      /did not answer in time; the request may have been carried out$/,
    )
    await until(() => isForwarded)
    expect(hitsOf('/held')).toEqual([])
  })

  test('is refused before a secret is released, and said to have not been sent', async () => {
    const bootKey = await fetchKey()
    const lines = (await world.lines()).length
    const fields = { issuedAt: Date.now() - 3000 }
    const late = seal(world, { bootKey, fields, path: '/late', timeout: '3s' })
    const { body } = await postTo(world.enclaveURL, late)
    expect(open(body, bootKey).failure).toMatchObject({
      code: 'EXPIRED',
      message: expect.stringMatching(
        /timeout is 3000 ms, and it was made \d{4} ms ago.*nothing was sent$/,
      ),
      mayHaveBeenSent: false,
    })
    const logged = (await world.lines()).slice(lines).join('\n')
    expect(logged).not.toMatch(/secrets released/)
    expect(hitsOf('/late')).toEqual([])
  })

  test('is counted from its arrival where the caller’s clock is ahead', async () => {
    const bootKey = await fetchKey()
    const fields = { issuedAt: Date.now() + 20_000 }
    const ahead = seal(world, { bootKey, fields, path: '/hang', timeout: '500ms' })
    const { body } = await postTo(world.enclaveURL, ahead)
    expect(open(body, bootKey).response).toMatchObject({ statusCode: 504 })
  })
})

test('an enclave with another key has another boot key: neither opens for the other', async () => {
  const other = createKeys()
  await expect(fetchBootKey(world.enclaveURL, other.publicKey)).rejects.toThrow(/does not open/)
})
