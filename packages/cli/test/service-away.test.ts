import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { startCommand } from '@sluice/test-support/command.js'
import { hurry } from '@sluice/test-support/hurry.js'
import { type Service, startService } from '@sluice/test-support/service/service.js'
import { until } from '@sluice/test-support/waiting.js'
import { knownFeeds } from 'sluice'
import { type RunningHere, start } from './support/cli.js'

// The service is elsewhere than on a known network, so it is asked for the feed of a name.
const eth = knownFeeds.testnet['ETH/USD'].feedID

let folder: string
let service: Service
/** What the commands are told: the service, or in its place a port that nobody ever listens on. */
let where: Pick<Service, 'apiKey' | 'userSecret' | 'endpoint' | 'wsEndpoint'>
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-away-'))
  service = await startService({ feeds: [eth], signatures: 'dummy' })
  where = service
  await service.stop()
  hurry()
})
afterEach(async () => {
  await service.close()
  rmSync(folder, { recursive: true })
})

/** A command in the test itself; the monitor, which reads its built page, in a process. */
function run(...args: readonly string[]): RunningHere {
  const { apiKey, userSecret, endpoint, wsEndpoint } = where
  const env = { API_KEY: apiKey, USER_SECRET: userSecret, REST_URL: endpoint, WS_URL: wsEndpoint }
  if (args[0] !== 'monitor') return start(args, { env })
  const { child, ...running } = startCommand(args, { env })
  return { ...running, stop: () => void child.kill('SIGINT') }
}

async function stop(running: RunningHere): Promise<string> {
  running.stop()
  const { err, code } = await running.ended
  expect([err, code]).toEqual([err, 0])
  return err
}

const away =
  /^sluice: 127\.0\.0\.1:\d+ can’t be reached: .*ECONNREFUSED.*\nsluice: 127\.0\.0\.1:\d+: attempt 1 of any number in \d\.\d s\n/

describe('a feed by its name, while the service is away at the start', () => {
  test.each([
    ['stream', ['stream', 'ETH/USD', '--max-reconnects', 'unlimited']],
    ['record', ['record', 'ETH/USD', '--dir', 'FOLDER']],
    ['monitor', ['monitor', 'ETH/USD', '--port', '0']],
    ['monitor of all feeds', ['monitor', '--port', '0']],
  ])('is looked up by %s until the service is back', async (_name, args) => {
    const running = run(...args.map(arg => (arg === 'FOLDER' ? folder : arg)))
    await running.shows(/attempt 1 of any number/)
    await service.start()
    await until(() => service.open === 1)
    expect(await stop(running)).toMatch(away)
    expect(service.requestsTo('/api/v1/feeds')).toHaveLength(1)
    expect(service.requestsTo('/api/v1/ws')[0]?.path).toContain(eth)
  })

  test('is looked up by relay, until Ctrl-C', async () => {
    const running = run('relay', '--nats', 'nats://127.0.0.1:1', '--feeds', 'ETH/USD')
    await running.shows(/attempt 2 of any number/)
    expect(await stop(running)).toMatch(away)
  })

  test('is looked up as often as --max-reconnects says', async () => {
    const { code, err } = await run('stream', 'ETH/USD', '--max-reconnects', '1').ended
    expect(code).toBe(4)
    expect(err).toMatch(
      /^sluice: 127\.0\.0\.1:\d+ can’t be reached: .*\nsluice: 127\.0\.0\.1:\d+: attempt 1 of 1 in \d\.\d s\nsluice: GET \/api\/v1\/feeds failed.*\nsluice: sluice doctor says why\n$/,
    )
  })

  test('is looked up without a word by --quiet, and once only where it may not be asked', async () => {
    const quiet = run('stream', 'ETH/USD', '--max-reconnects', '0', '--quiet')
    expect(await quiet.ended).toMatchObject({ code: 4 })
    expect(quiet.output.err.split('\n')).toHaveLength(3)
    await service.start()
    service.keys.clear()
    expect(await run('record', 'ETH/USD', '--dir', folder).ended).toMatchObject({ code: 3 })
    service.fail({ on: 'rest', answer: 503, times: 2 })
    const busy = run('stream', 'NO/SUCH', '--max-reconnects', '2')
    expect((await busy.ended).err).toMatch(/answered 503.*attempt 1 of 2.*answered 503/s)
  })
})

test.each([
  ['latest', eth, '--timeout', '20s'],
  ['stream', eth, '--max-reconnects', '0'],
  ['stream', 'ETH/USD', '--max-reconnects', '0', '-q'],
])('%s %s points to the doctor in its last line', async (...args) => {
  // The port of a service that was stopped may be another's before the last attempt.
  const [endpoint, wsEndpoint] = [service.endpoint, service.wsEndpoint].map(url =>
    url.replace(/:\d+$/, ':3'),
  ) as [string, string]
  where = { apiKey: service.apiKey, userSecret: service.userSecret, endpoint, wsEndpoint }
  const { code, err } = await run(...args).ended
  expect([code, err]).toEqual([
    4,
    expect.stringMatching(/ECONNREFUSED.*\nsluice: sluice doctor says why\n$/s),
  ])
})

test('the port of a service without TLS is named as such', async () => {
  await service.start()
  const { port } = new URL(service.endpoint)
  for (const args of [
    ['latest', eth, '--endpoint', `https://127.0.0.1:${port}`],
    ['stream', eth, '--ws-endpoint', `wss://127.0.0.1:${port}`, '--max-reconnects', '0'],
  ]) {
    const { code, err } = await run(...args).ended
    expect([code, err]).toEqual([
      4,
      expect.stringContaining(
        'the port speaks http, not TLS: its URL begins with http:// or ws://',
      ),
    ])
    expect(err).not.toContain('SSL routines')
  }
})
