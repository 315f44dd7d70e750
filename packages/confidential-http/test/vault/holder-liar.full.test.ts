import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys } from 'sluice/internal'
import { openHolderRequest, sealHolderAnswer } from '../../vault/process/protocol.js'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

let liar: Server
afterEach(() => new Promise(resolve => liar.close(resolve)))

/** Stands before a holder, with its key: says of these dealers that they lied, and has the holder answer all else. */
async function startLiar(holder: Holder, blamed: readonly number[]): Promise<string> {
  const secret = readFileSync(join(holder.directory, 'holder.key'), 'utf8').trim()
  const keys = boxKeys(Buffer.from(secret, 'hex'))
  liar = createServer(async (request, response) => {
    const body = await buffer(request)
    const opened = openHolderRequest(body, keys)
    const dealings = (opened?.request.dealings ?? []) as readonly string[]
    const complaints = dealings
      .map(each => JSON.parse(each).Index)
      .filter(each => blamed.includes(each))
    if (opened !== undefined && complaints.length > 0)
      return void response.end(sealHolderAnswer({ answer: { complaints } }, opened.replyTo, keys))
    const answer = await fetch(`${holder.url}${request.url}`, { method: 'POST', body })
    response.writeHead(answer.status).end(new Uint8Array(await answer.arrayBuffer()))
  })
  await new Promise<void>(resolve => liar.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(liar.address() as AddressInfo).port}`
}

let holders: [Holder, Holder, Holder]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
})

test('where a new holder says that an old one lied, both are named', async () => {
  const [first, second, third] = holders
  const url = await startLiar(second, [0])
  const remote = await open()
  const addresses = addressesOf([first, { ...second, url }, third])
  expect(await remote.reshare({ addresses })).toEqual({
    generation: 3,
    leftOut: [
      `holder 0 at ${first.url}: holder 1 at ${url} says that what it was sent is not what was published: one of the two lies`,
    ],
  })
  expect(await reveal(remote, nameOf('key'), [0, 2])).toBe(VALUE)
})

test('a new holder that says so of too many stops the resharing, and is named with each', async () => {
  const [first, second, third] = holders
  const url = await startLiar(second, [0, 1, 2])
  const remote = await open()
  const addresses = addressesOf([first, { ...second, url }, third])
  const { message } = await failureOf(remote.reshare({ addresses }))
  expect(message).toMatch(/^1 of the 2 holders it takes have dealt\n/)
  expect(message.match(/holder \d at \S+ says that/g)).toEqual(
    Array(2).fill(`holder 1 at ${url} says that`),
  )
  expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
})
