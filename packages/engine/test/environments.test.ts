// The environments for jest and vitest. `npm run hosts -- jest vitest` runs both with the packed packages.
import { afterEach, expect, test } from '@jest/globals'
import { startDataEngine } from '../index.js'
import environment, { environment as path } from '../vitest.js'
import { jestCLI, makeProject, type Project } from './support/project.js'

const feedID = `0x0003${'5a'.repeat(30)}`

let project: Project | undefined
afterEach(() => project?.remove())

const config = {
  jest: {
    transform: {},
    testEnvironment: '@sluice/engine/jest',
    testEnvironmentOptions: { engine: { feeds: [feedID], history: 0, seed: 7 } },
  },
}

const testFile = `
  const { createClient } = require('sluice')
  const realTimeout = setTimeout

  test('has the engine of its options', async () => {
    console.log('engine ' + engine.endpoint)
    expect(engine.feeds).toEqual(['${feedID}'])
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    const published = engine.publish('${feedID}', { price: 42 })
    const latest = await client.getLatestReport('${feedID}')
    expect(latest.fullReport).toBe(published.fullReport)
    await client.close()
  })

  test('has an engine that goes by the fake timers of the test', async () => {
    jest.useFakeTimers()
    jest.advanceTimersByTime(5000)
    engine.resume()
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    const stream = client.createStream(engine.feeds)
    await stream.connect()
    const start = Date.now()
    jest.advanceTimersByTime(3000)
    const times = []
    for (let i = 0; i < 3; i++) times.push((await stream.read()).observationsTimestamp)
    expect(times).toEqual([1000, 2000, 3000].map(ms => Math.floor((start + ms) / 1000)))
    await client.close()
    jest.useRealTimers()
  })
`

test('in jest, each test file has an engine of its own, which is closed after it', async () => {
  project = makeProject({
    'package.json': JSON.stringify(config),
    'a.test.js': testFile,
    'b.test.js': testFile,
  })
  const { code, out } = await project.run([jestCLI, '--ci', '-i'])
  expect(out).toContain('Tests:       4 passed, 4 total')
  expect(code).toBe(0)
  expect(new Set(out.match(/engine http:\S+/g)).size).toBe(2)
  expect(out).not.toContain('was left open')
})

test('in jest, a wrong option fails the file, and says which', async () => {
  const { jest } = config
  const wrong = { ...jest, testEnvironmentOptions: { engine: { feed: [feedID] } } }
  project = makeProject({
    'package.json': JSON.stringify({ jest: wrong }),
    'a.test.js': testFile,
  })
  const { code, out } = await project.run([jestCLI, '--ci', '-i'])
  expect(out).toContain("unknown option 'feed' of startDataEngine; did you mean 'feeds'?")
  expect(code).toBe(1)
})

test('in vitest, the environment starts an engine of the options, and its teardown closes it', async () => {
  const global = {} as typeof globalThis
  const { teardown } = await environment.setup(global, {
    engine: { feeds: [feedID], history: 1 },
  })
  const { engine } = global
  expect(engine.feeds).toEqual([feedID])
  // It is not signed.
  expect((await fetch(engine.endpoint, { method: 'HEAD' })).status).toBe(400)
  await teardown()
  expect(() => engine.publish(feedID)).toThrow('the data engine is closed')
  const { teardown: end } = await environment.setup(global, {})
  await using usual = await startDataEngine({ intervalMs: 0 })
  expect(global.engine.feeds).toEqual(usual.feeds)
  await end()
  expect([environment.viteEnvironment, path]).toEqual(['ssr', expect.stringMatching(/vitest\.ts$/)])
})
