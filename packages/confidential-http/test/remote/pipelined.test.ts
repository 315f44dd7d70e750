import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { startWorld, type World } from '../support/world.js'

let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: 'a secret of some length' })
})
afterAll(() => world.close())

/** Sends text on a new connection. Resolves with what came back, once the server has closed the connection. */
function say(text: string): Promise<string> {
  return new Promise(resolve => {
    const socket = connect(Number(new URL(world.enclaveURL).port), '127.0.0.1', () =>
      socket.write(text),
    )
    let heard = ''
    socket.on('data', data => {
      heard += data
    })
    socket.on('error', () => undefined)
    socket.on('close', () => resolve(heard))
  })
}

test('a connection with a second request before the first answer is closed', async () => {
  const post = 'POST /v2/requests HTTP/1.1\r\nhost: x\r\ncontent-length: 200\r\n\r\n'
  const head = 'GET /nothing HTTP/1.1\r\nhost: x\r\n'
  expect(await say(`${head}\r\n`.repeat(1000))).not.toMatch(/(404.*){2}/s)
  expect(await say(`${post}${'x'.repeat(200)}${`${head}\r\n`.repeat(1000)}`)).toBe('')
  // One after the other is as before.
  expect(await say(`${head}connection: close\r\n\r\n`)).toMatch(/^HTTP\/1\.1 404/)
})
