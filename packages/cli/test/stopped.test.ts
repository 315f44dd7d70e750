import { createServer, type Server } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startCommand } from '@sluice/test-support/command.js'
import { pause, until } from '@sluice/test-support/waiting.js'

const feedID = `0x0003${'ab'.repeat(30)}`
const signers = ['a1', 'a2', 'a3', 'a4'].map(byte => `0x${byte.repeat(20)}`)
let requests = 0
let silent: Server
let url = ''

// A service that takes requests and never answers.
beforeAll(async () => {
  silent = createServer(socket => {
    socket.on('data', () => requests++)
    socket.on('error', () => undefined)
  })
  await new Promise<void>(resolve => silent.listen(0, '127.0.0.1', resolve))
  const { port } = silent.address() as { port: number }
  url = `http://127.0.0.1:${port}`
})

afterAll(() => void silent.close())

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

test.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)(
  'a command that is stopped by %s ends with %i, and says so',
  async (signal, exitCode) => {
    const env = {
      API_KEY: 'key',
      USER_SECRET: 'secret',
      REST_URL: url,
      WS_URL: url.replace('http', 'ws'),
    }
    requests = 0
    const running = commands.map(args => startCommand(args, { env, input: null }))
    // The commands that ask the service have asked.
    await until(() => requests >= 6, 20_000)
    await pause(2000)
    for (const { child } of running) child.kill(signal)
    for (const [at, { ended }] of running.entries()) {
      const { code, out, err } = await ended
      expect([commands[at]?.[0], code, out]).toEqual([commands[at]?.[0], exitCode, ''])
      expect(err).toBe(`sluice: stopped by ${signal} before it was done\n`)
    }
  },
  40_000,
)
