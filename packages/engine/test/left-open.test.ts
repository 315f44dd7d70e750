// What happens at the end of a process that leaves an engine open, in processes of their own.
import { afterEach, expect, test } from '@jest/globals'
import { jestCLI, makeProject, type Project, type Ran } from './support/project.js'

const projects: Project[] = []
afterEach(() => {
  for (const project of projects.splice(0)) project.remove()
})

function run(
  files: Readonly<Record<string, string>>,
  args: readonly string[],
  env?: Readonly<Record<string, string>>,
): Promise<Ran> {
  const project = makeProject(files)
  projects.push(project)
  return project.run(args, env)
}

/** The endpoints that the sentences about open engines name. */
const leftOpen = (out: string): string[] =>
  [
    ...out.matchAll(
      /sluice: a data engine on (\S+) was left open: close it, or write `await using engine = …`/g,
    ),
  ].map(([, endpoint]) => endpoint as string)

const endpointsIn = (out: string): string[] =>
  [...out.matchAll(/started (\S+)/g)].map(([, endpoint]) => endpoint as string)

/** A test that fails after it has used an engine, and so never comes to the engine's end. */
const failing = (origins: number): string => `
    const engine = await startDataEngine({ origins: ${origins}, intervalMs: 10 })
    console.log('started ' + engine.endpoint)
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    await client.getLatestReport(engine.feeds[0])
    await client.createStream(engine.feeds).read()
    await client.close()
    throw new Error('this test fails')
`

const nodeTest = (body: string): string => `
  import { test } from 'node:test'
  import assert from 'node:assert/strict'
  import { once } from 'node:events'
  import { request } from 'node:http'
  import { createClient, generateAuthHeaders } from 'sluice'
  import { startDataEngine } from '@sluice/engine'
  test('it', async () => {${body}})
`

test('node:test ends with tests that fail and leave engines with one origin and with two, and a sentence names each', async () => {
  const text = `${nodeTest(failing(1))}
    test('other', async () => {${failing(2)}})`
  const ran = await run({ 'a.test.mjs': text }, ['--test', 'a.test.mjs'])
  expect(ran.out).toContain('this test fails')
  expect(ran.code).toBe(1)
  expect(endpointsIn(ran.out)).toHaveLength(2)
  expect(leftOpen(ran.out)).toEqual(endpointsIn(ran.out))
})

test('jest ends with tests that fail and leave engines, and names each once', async () => {
  const text = `
    const { createClient } = require('sluice')
    const { startDataEngine } = require('@sluice/engine')
    test('one', async () => {${failing(1)}})
    test('two', async () => {${failing(2)}})
  `
  const config = '{ "jest": { "transform": {} } }'
  const ran = await run({ 'package.json': config, 'a.test.js': text }, [jestCLI, '--ci', '-i'])
  expect(ran.out).toContain('Tests:       2 failed, 2 total')
  expect(ran.code).toBe(1)
  expect(endpointsIn(ran.out)).toHaveLength(2)
  expect(leftOpen(ran.out)).toEqual(endpointsIn(ran.out))
})

test('an engine that is closed is not named, and what a client waits for comes from the engine', async () => {
  const text = nodeTest(`
    const engine = await startDataEngine({ origins: 2, intervalMs: 400, runAhead: true })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    engine.fail({ status: 503, path: '/api/v1/reports/latest', delayMs: 300 })
    const latest = await client.getLatestReport(engine.feeds[0])
    const stream = client.createStream(engine.feeds)
    for (let i = 0; i < 50; i++) await stream.read()
    await client.close()
    await engine.close()
    assert.ok(latest.fullReport)
  `)
  const ran = await run({ 'a.test.mjs': text }, ['--test', 'a.test.mjs'])
  expect(ran.out).toMatch(/pass 1\n/)
  expect(ran.code).toBe(0)
  expect(leftOpen(ran.out)).toEqual([])
})

test('a stream through the front door does not keep the process alive on the side of the engine', async () => {
  const text = nodeTest(`
    const { apiKey, userSecret, endpoint, feeds } = await startDataEngine({ origins: 2 })
    const url = endpoint + '/api/v1/ws?feedIDs=' + feeds[0]
    const headers = generateAuthHeaders(apiKey, userSecret, 'GET', url)
    const websocket = { connection: 'Upgrade', upgrade: 'websocket', 'sec-websocket-version': 13 }
    const key = { 'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==' }
    const opened = request(url, { headers: { ...headers, ...websocket, ...key } }).end()
    const [response, socket] = await once(opened, 'upgrade')
    assert.equal(response.statusCode, 101)
    socket.unref()
  `)
  const ran = await run({ 'a.test.mjs': text }, ['--test', 'a.test.mjs'])
  expect(ran.out).toMatch(/pass 1\n/)
  expect([ran.code, leftOpen(ran.out).length]).toEqual([0, 1])
})

test('outside test runners an engine keeps the process alive, unless it is told not to', async () => {
  const program = (options: string, ms: number): string => `
    import { startDataEngine } from '@sluice/engine'
    const engine = await startDataEngine(${options})
    console.log('started ' + engine.endpoint)
    setTimeout(() => { console.log('closing'); engine.close() }, ${ms}).unref()
  `
  const runProgram = (options: string, ms: number, env?: Readonly<Record<string, string>>) =>
    run({ 'a.mjs': program(options, ms) }, ['a.mjs'], env)
  const keptAlive = [
    runProgram('{ intervalMs: 0 }', 500),
    runProgram('{ intervalMs: 0, keepAlive: true }', 500, { VITEST: 'true' }),
  ]
  const leftToEnd = [
    runProgram('{ keepAlive: false }', 600_000),
    runProgram('{}', 600_000, { VITEST: 'true' }),
  ]
  for (const kept of await Promise.all(keptAlive))
    expect([kept.out.includes('closing'), leftOpen(kept.out)]).toEqual([true, []])
  for (const free of await Promise.all(leftToEnd)) {
    expect([free.out.includes('closing'), free.code]).toEqual([false, 0])
    expect(leftOpen(free.out)).toEqual(endpointsIn(free.out))
  }
})
