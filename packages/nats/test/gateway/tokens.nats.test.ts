import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { hashOf, openRaw, request, startGateway, token } from '@sluice/test-support/nats/gateway.js'
import { closers, feed, type LogWorld, startWorld } from '@sluice/test-support/nats/world.js'
import { until } from '@sluice/test-support/waiting.js'
import type { AuthorizedHolder } from '../../gateway/index.js'
import { Tokens } from '../../gateway/tokens.js'

const latest = (index: number): string => `/api/v1/reports/latest?feedID=${feed(index)}`
const sha256 = hashOf(token)

/** A world whose log has a report of two feeds. */
async function startFilled(): Promise<LogWorld> {
  const world = await startWorld()
  const engine = await world.engine()
  const relay = await world.relay(engine)
  for (const index of [1, 2]) engine.publish(feed(index))
  await until(() => relay.getMetrics().stored === 2)
  return world
}

const statusOf = async (sent: Promise<Response>): Promise<string> => {
  const answer = await sent
  const { message } = (await answer.json()) as { readonly message?: string }
  return message === undefined ? String(answer.status) : `${answer.status} ${message}`
}

/** A file of tokens, and how it is written. */
function tokenFile() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tokens-'))
  closers.push(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'tokens.json')
  return { file, write: (content: object) => writeFileSync(file, JSON.stringify(content)) }
}

describe('tokens', () => {
  test('may be 10,000 in a file of more than a megabyte, and each is found at once', () => {
    const { file, write } = tokenFile()
    const names = Array.from({ length: 10_000 }, (_, index) => `user-${index}`)
    const entry = (name: string) => ({ sha256: hashOf(name), expires: '2100-01-31T00:00:00Z' })
    write(Object.fromEntries(names.map(name => [name, entry(name)])))
    const tokens = new Tokens({ tokens: file, authorizedFor: 60 }, {})
    const holders = names.map(name => ({ name, digest: hashOf(name), expires: 0 }))
    expect(tokens.size).toBe(10_000)
    const few = tokenFile()
    few.write(Object.fromEntries(names.slice(0, 100).map(name => [name, entry(name)])))
    const fewTokens = new Tokens({ tokens: few.file, authorizedFor: 60 }, {})
    /** Milliseconds for 10,000 tokens that are found: the least of three times. */
    const cost = (of: Tokens, count: number): number => {
      const times = [1, 2, 3].map(() => {
        const started = performance.now()
        let found = 0
        for (let at = 0; at < 10_000; at++) {
          const holder = holders[at % count] as (typeof holders)[number]
          if (of.current(holder)?.name === holder.name) found++
        }
        expect(found).toBe(10_000)
        return performance.now() - started
      })
      return Math.min(...times)
    }
    // A search from one to the next would take a hundred times as long.
    expect(cost(tokens, 10_000) / cost(fewTokens, 100)).toBeLessThan(20)
  })

  test('a file that is refused is an error, and shows in the metrics and in the health', async () => {
    const world = await startFilled()
    const { file, write } = tokenFile()
    write({ one: { sha256 }, two: { sha256: hashOf('second') } })
    const errors: string[] = []
    const gateway = await startGateway(world, {
      tokens: file,
      log: { error: line => void errors.push(line) },
    })
    const health = async () => (await fetch(`${gateway.url}/health`)).json()
    expect(gateway.getMetrics()).toMatchObject({ tokens: 2, tokensRefused: undefined })
    write({ two: { sha256: hashOf('second'), feeds: [] } })
    await until(() => gateway.getMetrics().tokensRefused !== undefined)
    expect(gateway.getMetrics().tokensRefused).toMatch(
      /unknown option 'feeds' of .*tokens\.json\.two/,
    )
    expect(errors).toEqual([
      `the tokens are still those of before: ${gateway.getMetrics().tokensRefused}`,
    ])
    expect(await health()).toEqual({ status: 'ok', tokens: 'refused' })
    expect((await request(gateway, latest(1))).status).toBe(200)
    write({ two: { sha256 }, three: { sha256 } })
    await until(
      () => gateway.getMetrics().tokensRefused?.includes('three.sha256 must not be the') === true,
    )
    write({ two: { sha256: hashOf('second') } })
    await until(() => gateway.getMetrics().tokensRefused === undefined)
    expect(await health()).toEqual({ status: 'ok' })
    expect((await request(gateway, latest(1))).status).toBe(401)
  })

  test('say what their holders may do, and streams end when they may no longer', async () => {
    const world = await startFilled()
    const { file, write } = tokenFile()
    const good = { sha256, feedIDs: [feed(1)], maxQueryAge: 60, connections: 1 }
    write({ one: good, slow: { sha256: hashOf('slow'), requestsPerSecond: 2 } })
    const gateway = await startGateway(world, { tokens: file })
    expect(await statusOf(request(gateway, latest(1)))).toBe('200')
    expect(await statusOf(request(gateway, latest(2)))).toBe(
      `403 the token has no access to feed ${feed(2)}`,
    )
    const list = await (await request(gateway, '/api/v1/feeds')).json()
    expect(list).toEqual({ feeds: [{ feedID: feed(1) }] })
    const page = `/api/v1/reports/page?feedID=${feed(1)}&startTimestamp=`
    expect(await statusOf(request(gateway, page + (Date.now() - 61_000)))).toBe(
      '403 startTimestamp must be at most 60 seconds ago for the token',
    )
    expect(await statusOf(request(gateway, page + (Date.now() - 50_000)))).toBe('200')
    const stream = await openRaw(gateway, [feed(1)])
    await expect(openRaw(gateway, [feed(1)])).rejects.toThrow(
      '429 the token has 1 connections already',
    )
    await expect(openRaw(gateway, [feed(1), feed(2)])).rejects.toThrow(
      '403 the token has no access',
    )

    const slow = { authorization: 'Bearer slow' }
    const statuses: number[] = []
    for (let count = 0; count < 4; count++)
      statuses.push((await request(gateway, latest(1), slow)).status)
    expect(statuses.slice(0, 2)).toEqual([200, 200])
    expect(statuses).toContain(429)
    const retried = async () => (await request(gateway, latest(1), slow)).status === 200
    while (!(await retried())) await new Promise(resolve => setTimeout(resolve, 50))

    write({ one: { ...good, feedIDs: [feed(2)] } })
    expect(await stream.closed).toBe('4403 the token no longer has access to a feed')
    expect(await statusOf(request(gateway, latest(2)))).toBe('200')
  })
})

describe('authorize', () => {
  test('is asked once for a token and its lifetime, and what it says counts', async () => {
    const asked: string[] = []
    const holders = new Map<string, AuthorizedHolder>([
      [token, { name: 'auth|1', feedIDs: [feed(1)] }],
      ['other', { name: 'auth|2' }],
    ])
    const gateway = await startGateway(await startFilled(), {
      tokens: { file: { sha256: hashOf('of the file') } },
      authorizedFor: 1,
      async authorize(given) {
        asked.push(given)
        return holders.get(given)
      },
    })
    const both = await Promise.all([1, 2].map(index => request(gateway, latest(index))))
    expect(both.map(({ status }) => status)).toEqual([200, 403])
    for (let count = 0; count < 3; count++) await request(gateway, latest(1))
    expect(asked).toEqual([token])
    const stream = await openRaw(gateway, [feed(1)])
    for (let count = 0; count < 3; count++)
      expect((await request(gateway, latest(1), { authorization: 'Bearer wrong' })).status).toBe(
        401,
      )
    expect(asked.filter(given => given === 'wrong')).toHaveLength(1)
    holders.delete(token)
    expect(await stream.closed).toBe('4401 the token was removed, or has expired')
    expect((await request(gateway, latest(1))).status).toBe(401)
  }, 20_000)

  test('that fails rejects requests with 503 and keeps open streams, and no line has the token', async () => {
    const lines: string[] = []
    const write = (line: string): void => void lines.push(line)
    let answer: () => unknown = () => ({ name: 'one' })
    const gateway = await startGateway(await startFilled(), {
      authorizedFor: 1,
      tokens: {},
      authorize: () => answer() as AuthorizedHolder,
      log: { warn: write, error: write, info: write },
    })
    const stream = await openRaw(gateway, [feed(1)])
    answer = () => {
      throw new Error(`no row for ${token}`)
    }
    while ((await request(gateway, latest(1))).status !== 503)
      await new Promise(resolve => setTimeout(resolve, 50))
    answer = () => ({ name: 'one', feedIDs: 'all' })
    expect(await statusOf(request(gateway, latest(1)))).toBe('503 the token can’t be looked up now')
    await new Promise(resolve => setTimeout(resolve, 1500))
    expect(stream.socket.readyState).toBe(stream.socket.OPEN)
    expect(lines).toContain('authorize failed: Error')
    expect(lines.join()).not.toContain(token)
    answer = () => ({ name: 'one' })
    expect((await request(gateway, latest(1))).status).toBe(200)
  }, 20_000)
})
