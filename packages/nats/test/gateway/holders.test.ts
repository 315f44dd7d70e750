import { createHash } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals'
import { authorizeSource } from '../../gateway/authorize.js'
import { checkAge, checkFeedsOf, type Holder, holderOf, Rates } from '../../gateway/holders.js'
import { type GatewayTokens, type TokenSources, Tokens } from '../../gateway/tokens.js'

const feed = (index: number): string => `0x0003${String(index).repeat(60)}`
const hashOf = (token: string): string => createHash('sha256').update(token).digest('hex')
const requestOf = (authorization?: string): IncomingMessage =>
  ({ headers: authorization === undefined ? {} : { authorization } }) as IncomingMessage

describe('the holder of a token', () => {
  const own: Holder = holderOf('desk', '', { feedIDs: new Set([feed(1), feed(2)]) })

  test('reads its own feeds only, also where it asks for several', () => {
    expect(() => checkFeedsOf(own, [feed(2), feed(1)])).not.toThrow()
    expect(() => checkFeedsOf(own, [feed(1), feed(3)])).toThrow(`no access to feed ${feed(3)}`)
    expect(() => checkFeedsOf(holderOf('all', '', {}), [feed(3)])).not.toThrow()
  })

  test('reads as far back as its token says', () => {
    const holder = holderOf('desk', '', { maxQueryAge: 60 })
    const now = Math.floor(Date.now() / 1000)
    expect(() => checkAge(holder, 'timestamp', feed(1), now - 30)).not.toThrow()
    expect(() => checkAge(holder, 'timestamp', feed(1), now - 90)).toThrow('at most 60 seconds ago')
  })
})

describe('requests', () => {
  beforeEach(() => void jest.useFakeTimers())
  afterEach(() => void jest.useRealTimers())

  test('are as many as the token allows in a second, and more a second later', () => {
    const rates = new Rates()
    const holder = holderOf('desk', '', { requestsPerSecond: 5 })
    const admitted = (): number => {
      let count = 0
      try {
        for (; count < 50; count++) rates.check(holder)
      } catch (thrown) {
        expect(thrown).toMatchObject({ status: 429, headers: { 'retry-after': '1' } })
      }
      return count
    }
    expect(admitted()).toBe(5)
    expect(admitted()).toBe(0)
    jest.advanceTimersByTime(400)
    expect(admitted()).toBe(2)
    jest.advanceTimersByTime(60_000)
    expect(admitted()).toBe(5)
    expect(() => rates.check(holderOf('other', '', { requestsPerSecond: 5 }))).not.toThrow()
  })
})

describe('tokens', () => {
  const find = (tokens: GatewayTokens | undefined, more: Partial<TokenSources> = {}) =>
    new Tokens({ tokens, authorizedFor: 60, ...more }, {})

  test('are found by their hash, until they expire', async () => {
    const expired = { sha256: hashOf('old'), expires: '2020-01-31T00:00:00Z' }
    const tokens = find({ desk: { sha256: hashOf('secret') }, old: expired })
    expect(await tokens.find(requestOf('Bearer secret'))).toMatchObject({ name: 'desk' })
    for (const wrong of [undefined, 'Bearer other', 'Bearer old', `Bearer ${hashOf('secret')}`])
      await expect(tokens.find(requestOf(wrong))).rejects.toMatchObject({ status: 401 })
  })

  test('that were removed end the streams of their holders', async () => {
    const holder = await find({ desk: { sha256: hashOf('secret') } }).find(
      requestOf('Bearer secret'),
    )
    expect(find({ desk: { sha256: hashOf('secret') } }).current(holder)).toMatchObject(holder)
    expect(find({ desk: { sha256: hashOf('new secret') } }).current(holder)).toBeUndefined()
  })
})

describe('tokens that nobody knows', () => {
  const connection = (address: string): EventEmitter =>
    Object.assign(new EventEmitter(), { remoteAddress: address }).setMaxListeners(0)
  const bring = (tokens: Tokens, token: string, socket: EventEmitter): Promise<Holder> =>
    tokens.find({ headers: { authorization: `Bearer ${token}` }, socket } as never)

  /** Tokens whose lookup takes a while; those that begin with `good` are valid. */
  function open() {
    let running = 0
    let most = 0
    const authorize = authorizeSource(async token => {
      most = Math.max(most, ++running)
      await new Promise(resolve => setTimeout(resolve, 20))
      running--
      return token.startsWith('good') ? { name: token } : undefined
    })
    const tokens = new Tokens({ authorize, authorizedFor: 60 }, {})
    return { tokens, most: () => most }
  }

  test.each([
    ['another address', '10.0.0.2'],
    ['the same address, where others were valid before', '10.0.0.1'],
  ])('don’t keep those out who come from %s', async (_where, address) => {
    const { tokens, most } = open()
    await bring(tokens, 'good-first', connection(address))
    let isOver = false
    const strangers = Array.from({ length: 150 }, async (_, index) => {
      const socket = connection('10.0.0.1')
      for (let count = 0; !isOver; count++)
        await bring(tokens, `bad-${index}-${count}`, socket).catch(() => undefined)
    })
    const found = []
    for (let count = 0; count < 10; count++)
      found.push((await bring(tokens, `good-${count}`, connection(address))).name)
    isOver = true
    await Promise.all(strangers)
    expect(found).toHaveLength(10)
    expect(most()).toBeLessThanOrEqual(64)
  })

  test('are refused with 503 where too many wait, and forgotten when their client hangs up', async () => {
    const { tokens } = open()
    const socket = connection('10.0.0.3')
    const asked = Array.from({ length: 400 }, (_, index) => bring(tokens, `bad-${index}`, socket))
    const outcomes = Promise.allSettled(asked)
    await new Promise(resolve => setTimeout(resolve, 50))
    socket.emit('close')
    const statuses = (await outcomes).map(
      each => ((each as PromiseRejectedResult).reason as { status: number }).status,
    )
    expect(new Set(statuses)).toEqual(new Set([401, 503]))
    expect(socket.listenerCount('close')).toBe(0)
    expect((await bring(tokens, 'good', connection('10.0.0.4'))).name).toBe('good')
  })
})
