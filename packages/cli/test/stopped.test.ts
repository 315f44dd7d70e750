import { createServer, type Server, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startCommand } from '@sluice/test-support/command.js'
import { until } from '@sluice/test-support/waiting.js'
import { start } from './support/cli.js'

const feedID = `0x0003${'ab'.repeat(30)}`
const signers = ['a1', 'a2', 'a3', 'a4'].map(byte => `0x${byte.repeat(20)}`)
let requests = 0
let silent: Server
const sockets = new Set<Socket>()
let url = ''

// A service that takes requests and never answers.
beforeAll(async () => {
  silent = createServer(socket => {
    sockets.add(socket)
    socket.on('data', () => requests++)
    socket.on('error', () => undefined)
  })
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  url = `http://127.0.0.1:${port}`
})

afterAll(() => {
  silent.close()
  for (const socket of sockets) socket.destroy()
})

const commands: readonly (readonly string[])[] = [
  ['feeds'],
  ['latest', feedID],
  ['page', feedID, '--from', '5m'],
  ['bulk', feedID],
  ['history', feedID, '--from', '5m', '--json'],
  ['gaps', '--feed', feedID, '--from', '5m'],
  ['decode', '-'],
  ['verify', '-', '--signers', signers.join(','), '--f', '1'],
]

const environment = (): Record<string, string> => ({
  API_KEY: 'key',
  USER_SECRET: 'secret',
  REST_URL: url,
  WS_URL: url.replace('http', 'ws'),
})
const signals = [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const

test.each(signals)(
  'a command that is stopped by %s ends with %i, and says so',
  async (signal, exitCode) => {
    requests = 0
    const input = new PassThrough()
    const running = commands.map(args => start(args, { env: environment(), input }))
    // The commands that ask the service have asked, and the others read.
    await until(() => requests >= 6 && input.listenerCount('readable') >= 2)
    for (const { stop } of running) stop(signal)
    for (const [at, { ended }] of running.entries())
      expect([commands[at]?.[0], await ended]).toEqual([
        commands[at]?.[0],
        { code: exitCode, out: '', err: `sluice: stopped by ${signal} before it was done\n` },
      ])
  },
)

test.each(signals)('so does a process: %s', async (signal, exitCode) => {
  requests = 0
  const { child, ended } = startCommand(['latest', feedID], { env: environment(), input: null })
  await Promise.race([until(() => requests > 0), ended])
  child.kill(signal)
  expect(await ended).toEqual({
    code: exitCode,
    out: '',
    err: `sluice: stopped by ${signal} before it was done\n`,
  })
})
