import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { knownFeeds } from 'sluice'
import { runHere, start } from './support/cli.js'

const eth = knownFeeds.testnet['ETH/USD'].feedID
const START = 1_700_000_000

let engine: DataEngine
let folder: string
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-limits-'))
  engine = await startDataEngine({ feeds: [eth], intervalMs: 0, history: 0 })
})
afterEach(async () => {
  await engine.close()
  rmSync(folder, { recursive: true })
})

const env = (): Record<string, string> => ({
  API_KEY: engine.apiKey,
  USER_SECRET: engine.userSecret,
  REST_URL: engine.endpoint,
  WS_URL: engine.wsEndpoint,
})
const publish = (from: number, to: number): void => {
  for (let time = from; time <= to; time++)
    engine.publish(eth, {
      validFromTimestamp: START + time,
      observationsTimestamp: START + time,
    })
}
const timesOf = (text: string): readonly number[] =>
  text
    .trim()
    .split('\n')
    .map(line => JSON.parse(line).observationsTimestamp - START)

describe('stream --count', () => {
  test('a process ends by itself with 0 after so many reports, and prints no more', async () => {
    const { ended, shows } = startCommand(['stream', eth, '-n', '2', '--json'], { env: env() })
    await shows(/is connected/)
    publish(1, 20)
    const { out, code } = await ended
    expect([timesOf(out), code]).toEqual([[1, 2], 0])
  })

  test('the next stream with the same cursors begins with the report after the last', async () => {
    const cursors = join(folder, 'cursors.json')
    const args = ['stream', eth, '--json', '--order', 'sorted', '--cursors', cursors, '-n']
    const running = start([...args, '3'], { env: env() })
    await running.shows(/is connected/)
    publish(1, 8)
    expect(timesOf((await running.ended).out)).toEqual([1, 2, 3])
    expect(JSON.parse(readFileSync(cursors, 'utf8'))).toMatchObject({ [eth]: START + 3 })
    const next = start([...args, '5'], { env: env() })
    await next.shows(/is connected/)
    publish(9, 9)
    expect(timesOf((await next.ended).out)).toEqual([4, 5, 6, 7, 8])
  })
})

describe('stream --for', () => {
  test('ends with 0 and the totals', async () => {
    const startedAt = performance.now()
    const running = start(['stream', eth, '--for', '1s', '--json'], { env: env() })
    await running.shows(/is connected/)
    publish(1, 1)
    const { out, err, code } = await running.ended
    expect([timesOf(out), code]).toEqual([[1], 0])
    expect(err).toMatch(/sluice: 1 report, .*\n/)
    expect(performance.now() - startedAt).toBeGreaterThan(990)
  })

  test('takes no time that a timer cannot wait', async () => {
    const { err, code } = await runHere(['stream', eth, '--for', '25d'], { env: env() })
    expect(err).toMatch(/'--for <time>' argument '25d' is invalid. must be at most 24d\n$/)
    expect(code).toBe(2)
  })
})

describe('--timeout', () => {
  test('a stream without a report for this time ends with 4 and says so', async () => {
    const running = start(['stream', eth, '--timeout', '2s', '--json'], { env: env() })
    await running.shows(/is connected/)
    await new Promise(resolve => setTimeout(resolve, 300))
    publish(1, 1)
    const shownAt = performance.now()
    const { out, err, code } = await running.ended
    expect([timesOf(out), code]).toEqual([[1], 4])
    // The report has started the time again.
    expect(performance.now() - shownAt).toBeGreaterThan(1900)
    expect(err).toMatch(/sluice: no report came within 2 s: give --timeout more, or ask sluice doc/)
  })

  test('each command ends with 4 at a service that never answers', async () => {
    const silent = createServer(socket => void socket.resume().on('error', () => undefined))
    await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
    const { port } = silent.address() as { port: number }
    const around = {
      env: { ...env(), REST_URL: `http://127.0.0.1:${port}`, WS_URL: `ws://127.0.0.1:${port}` },
    }
    const argsOf = (name: string): readonly string[] => {
      const feeds = name === 'feeds' ? [] : ['ETH/USD']
      const more = name === 'page' ? ['--from', '1h'] : []
      return [name, ...feeds, ...more, '--timeout', '1s']
    }
    const ran = await Promise.all([
      ...['latest', 'page', 'bulk', 'feeds', 'stream'].map(name => runHere(argsOf(name), around)),
      startCommand(argsOf('bulk'), around).ended,
    ])
    for (const { out, err, code } of ran) {
      expect([out, code]).toEqual(['', 4])
      expect(err).toMatch(
        /^sluice: (the service has not answered|no report came) within 1 s: .*\n$/,
      )
    }
    silent.close()
  })
})
