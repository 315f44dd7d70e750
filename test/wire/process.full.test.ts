import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

const entry = (folder: string) =>
  JSON.stringify(join(__dirname, '../..', folder, 'dist/esm/index.js'))

/** Runs a program in a process of its own, on the built package; it must end by itself. */
function run(body: string): Promise<{ code: number | null; out: string; lingered: number }> {
  const program = `
    import { createClient } from ${entry('.')}
    import { startDataEngine } from ${entry('packages/engine')}
    const feedID = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
    const engine = await startDataEngine({ feeds: [feedID], intervalMs: 20, runAhead: true, origins: 2 })
    const { apiKey, userSecret, endpoint, wsEndpoint } = engine
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    const ha = createClient({ apiKey, userSecret, endpoint, wsEndpoint, haMode: true })
    const pause = ms => new Promise(resolve => setTimeout(resolve, ms))
    const finish = async () => { await engine.close(); console.log('closed ' + performance.now()) }
    ${body}
  `
  return new Promise(resolve => {
    const child = spawn(process.execPath, ['--input-type=module', '-e', program])
    let lastWord = 0
    let out = ''
    child.stdout.on('data', chunk => {
      out += chunk
      lastWord = performance.now()
    })
    child.stderr.on('data', chunk => {
      out += chunk
    })
    const guard = setTimeout(() => child.kill('SIGKILL'), 15_000)
    child.on('close', code => {
      clearTimeout(guard)
      resolve({ code, out, lingered: performance.now() - lastWord })
    })
  })
}

test.each([
  ['a client that was never used', ''],
  ['a stream that was never connected', 'client.createStream(feedID)'],
  ['REST calls', 'await client.listFeeds(); await client.getLatestReport(feedID)'],
  [
    'a stream that was closed while open',
    'const stream = client.createStream(feedID); await stream.connect(); await pause(100); await stream.close()',
  ],
  [
    'a stream that was closed while connecting',
    'engine.blackhole(true); const stream = client.createStream(feedID); stream.connect().catch(() => {}); await pause(100); await stream.close(); engine.blackhole(false)',
  ],
  [
    'a stream that was closed while waiting to reconnect',
    'const stream = client.createStream(feedID, { reconnectInterval: 10000 }); await stream.connect(); engine.disconnect(1000); await pause(100); await stream.close()',
  ],
  [
    'a stream that gave up',
    'const stream = client.createStream(feedID, { maxReconnectAttempts: 0 }); await stream.connect(); engine.disconnect(); await stream.closed.catch(() => {})',
  ],
  [
    'a connect that was rejected',
    'engine.fail({ status: 401, times: Infinity }); await client.createStream(feedID).connect().catch(() => {})',
  ],
  [
    'a highly available stream that was closed while open',
    'const stream = ha.createStream(feedID); await stream.connect(); await pause(300); await stream.close()',
  ],
  [
    'a highly available stream that was closed while discovering',
    'engine.blackhole(true); const stream = ha.createStream(feedID); stream.connect().catch(() => {}); await pause(50); await stream.close(); engine.blackhole(false)',
  ],
  [
    'a highly available stream that was closed while probing a dead origin',
    'const stream = ha.createStream(feedID, { maxReconnectAttempts: 0 }); await stream.connect(); await engine.origins[1].kill(); await pause(400); await stream.close()',
  ],
  [
    'a highly available stream that gave up',
    'for (const origin of engine.origins) origin.refuse(503); await ha.createStream(feedID, { maxReconnectAttempts: 0 }).connect().catch(() => {})',
  ],
  [
    'a dozen requests and streams at once',
    `await Promise.all(Array.from({ length: 12 }, () => client.getLatestReport(feedID)))
     const signal = new AbortController().signal
     await Promise.all(Array.from({ length: 12 }, () => client.listFeeds({ signal })))
     const streams = Array.from({ length: 12 }, () => client.createStream(feedID, { signal }))
     await Promise.all(streams.map(stream => stream.connect())); await client.close()`,
  ],
  [
    'a status callback and deferred tasks that reject',
    `const other = createClient({ apiKey, userSecret, endpoint, wsEndpoint, connectionStatusCallback: async () => { throw new Error('mine') } })
     await other.createStream(feedID).connect(); await pause(50); await other.close()`,
  ],
  [
    'a wrong signal',
    `await client.listFeeds({ signal: new AbortController() }).catch(() => {}); await client.close()`,
  ],
  [
    'loops over streams that were left by break, by throw and by close',
    `for await (const report of client.createStream(feedID)) break
     try { for await (const report of ha.createStream(feedID)) throw new Error('mine') } catch {}
     const stream = client.createStream(feedID); setTimeout(stream.close, 100); for await (const report of stream);`,
  ],
  [
    'a stream that was paused, and closed with reports left in it',
    `const stream = client.createStream(feedID, { queue: 2 }); await stream.read(); await pause(300); await stream.close()`,
  ],
  [
    'a stream that its overflow policy has closed',
    `const stream = client.createStream(feedID, { queue: 2, overflow: 'close' }); await stream.read(); await stream.closed.catch(() => {})`,
  ],
  [
    'handlers, callbacks and frames that go wrong, with nobody listening for errors',
    `const stream = client.createStream(feedID)
     stream.on('report', () => { throw new Error('mine') })
     stream.on('status', async () => { throw new Error('mine') })
     await stream.connect(); engine.send('garbage'); engine.disconnect(); await pause(1500); await stream.close()`,
  ],
])('a process ends by itself, unharmed, after %s', async (_name, body) => {
  const { code, out, lingered } = await run(`${body}; await finish()`)
  expect(out).toMatch(/^closed [\d.]+\n$/)
  expect(code).toBe(0)
  // A handle that was left would hold it until the guard kills it, or a timer runs out.
  expect(lingered).toBeLessThan(1500)
})

test('a process stays alive while its stream waits to reconnect', async () => {
  const { code, out } = await run(`
    const stream = client.createStream(feedID, { reconnectInterval: 400, maxReconnectAttempts: 3 })
    await stream.connect()
    await engine.close()
    stream.on('error', error => console.log(error.code))
  `)
  expect(out).toBe('WS_GAVE_UP\n')
  expect(code).toBe(0)
})
