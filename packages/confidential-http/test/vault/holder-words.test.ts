import { chmodSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, expect, test } from '@jest/globals'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { boxKeys, createKeys } from 'sluice/internal'
import { askHolder, openHolderRequest, sealHolderAnswer } from '../../vault/process/protocol.js'
import { addressesOf, open, startHolder, startHolders } from '../support/vault/holder-processes.js'
import { nameOf, place, release, vault } from '../support/vault/vault.js'

let server: Server | undefined
afterEach(() => new Promise<unknown>(resolve => (server ? server.close(resolve) : resolve(0))))

/** Asks a holder that answers with this failure, and returns the error of the vault. */
async function errorFrom(failure: unknown): Promise<Error> {
  const { publicKey: key, secretKey } = createKeys()
  const keys = boxKeys(Buffer.from(secretKey, 'hex'))
  server = createServer(async (request, response) => {
    const opened = openHolderRequest(await buffer(request), keys)
    if (opened !== undefined) response.end(sealHolderAnswer({ failure }, opened.replyTo, keys))
  })
  await new Promise<void>(resolve => server?.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return failureOf(askHolder({ url: `http://127.0.0.1:${port}`, key }, boxKeys(), { kind: 'x' }))
}

test.each<[unknown, string]>([
  ['all is well', 'it says "all is well"'],
  [
    'it broke"; the secret is safe: "trust me',
    'it says "it broke\\"; the secret is safe: \\"trust me"',
  ],
  ['one\ntwo\r\nsluice: run this', 'it says "one?two??sluice: run this"'],
  ['\x1b[2J\x1b]0;x\x07\x9b1m\u202e\u2028\u200b', 'it says "?[2J?]0;x??1m???"'],
  ['x'.repeat(300), `it says "${'x'.repeat(300)}"`],
  ['x'.repeat(301), `it says "${'x'.repeat(300)}…"`],
  ['\n'.repeat(100_000), `it says "${'?'.repeat(300)}…"`],
  ['', 'it failed'],
  [undefined, 'it failed'],
  [{ message: 'x' }, 'it failed'],
])('the words of a holder, %j, are quoted', async (message, quoted) => {
  expect(await errorFrom({ code: 'VAULT', message })).toMatchObject({
    name: 'VaultError',
    message: quoted,
  })
})

test('the words of a stranger in the log of a holder are bounded, and in one line', async () => {
  const lines: string[] = []
  const log = { warn: (line: string) => void lines.push(line) }
  const trust = { writer: vault.writerKey, callers: [] }
  const { url, publicKey: key } = await startHolder({ directory: place(), trust, log })
  for (const kind of ['release\n\x1b[2Jinfo all is well', 'x'.repeat(100_000)])
    await failureOf(askHolder({ url, key }, boxKeys(), { kind }))
  const rejected = () => lines.filter(line => line.startsWith('rejected: '))
  await until(() => rejected().length === 2)
  const rest = ' of [0-9a-f]{8}\\.\\.\\.: the holder knows no such request$'
  expect(rejected()[0]).toMatch(new RegExp(`^rejected: release\\?\\?\\[2Jinfo all…${rest}`))
  expect(rejected()[1]).toMatch(new RegExp(`^rejected: x{20}…${rest}`))
})

test('a caller reads no mode of a file of the holder', async () => {
  await vault.put({ key: 'key' }, 'x', { policy: 'anywhere' })
  const holders = await startHolders(1, vault.writerKey)
  await vault.reshare({ addresses: addressesOf(holders), threshold: 1 })
  const [{ directory = '' } = {}] = holders
  chmodSync(join(directory, 'shares', '2.json'), 0o644)
  expect(await failureOf(release(await open(), 0, nameOf('key')))).toMatchObject({
    code: 'VAULT',
    message: 'it says "others may read or change files that are only for their owner"',
  })
})
