import { createConnection, type Socket } from 'node:net'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { until } from '@sluice/test-support/waiting.js'
import { addressesOf, type Holder, open, startHolders } from '../support/vault/holder-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

const strangers: Socket[] = []
afterEach(() => {
  for (const socket of strangers.splice(0)) socket.destroy()
})

let holders: Holder[]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = await startHolders(2, vault.writerKey)
  await vault.reshare({ addresses: addressesOf(holders) })
})

test('connections that bring nothing keep no caller out', async () => {
  const { hostname, port } = new URL((holders[0] as Holder).url)
  let closed = 0
  let opened = 0
  for (let i = 0; i < 400; i++) {
    const socket = createConnection(Number(port), hostname)
    socket.on('error', () => undefined)
    socket.on('connect', () => opened++)
    socket.on('close', () => closed++)
    socket.write('POST /v1/holder HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nabc')
    strangers.push(socket)
  }
  await until(() => opened === 400)
  expect(await reveal(await open(), nameOf('key'))).toBe(VALUE)
  // The oldest of them, not the latest, made room.
  await until(() => closed >= 144)
  expect(strangers[0]?.destroyed).toBe(true)
})

test('strangers with long requests keep none of a caller waiting', async () => {
  const { url } = holders[0] as Holder
  const { hostname: host, port } = new URL(url)
  expect(await reveal(await open(), nameOf('key'))).toBe(VALUE)
  const long = 1_100_000
  for (let i = 0; i < 8; i++) {
    const socket = createConnection({ host, port: Number(port), localAddress: '127.0.0.2' })
    socket.on('error', () => undefined)
    socket.write(`POST /v1/holder HTTP/1.1\r\nhost: x\r\ncontent-length: ${long}\r\n\r\nabc`)
    strangers.push(socket)
  }
  await until(() => strangers.every(socket => socket.bytesWritten > 0))
  let ended = 0
  for (const socket of strangers) socket.on('data', () => ended++).on('close', () => ended++)
  expect(await reveal(await open(), nameOf('key'))).toBe(VALUE)
  // It is no request, and is read before the first stranger's time is up.
  const body = new Uint8Array(long)
  expect((await fetch(`${url}/v1/holder`, { method: 'POST', body })).status).toBe(400)
  expect(ended).toBe(0)
})
