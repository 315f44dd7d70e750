import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys } from 'sluice/internal'
import { openNodeRequest, sealNodeAnswer } from '../../vault/process/protocol.js'
import {
  addressesOf,
  introduce,
  type Node,
  open,
  startNodes,
} from '../support/vault/node-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

let liar: Server
afterEach(() => new Promise(resolve => liar.close(resolve)))

/** Stands before a node, with its key: says of these dealers that they lied, and has the node answer all else. */
async function startLiar(node: Node, blamed: readonly number[]): Promise<string> {
  const secret = readFileSync(join(node.directory, 'node.key'), 'utf8').trim()
  const keys = boxKeys(Buffer.from(secret, 'hex'))
  liar = createServer(async (request, response) => {
    const body = await buffer(request)
    const opened = openNodeRequest(body, keys)
    const dealings = (opened?.request.dealings ?? []) as readonly string[]
    const complaints = dealings
      .map(each => JSON.parse(each).Index)
      .filter(each => blamed.includes(each))
    if (opened !== undefined && complaints.length > 0)
      return void response.end(sealNodeAnswer({ answer: { complaints } }, opened.replyTo, keys))
    const answer = await fetch(`${node.url}${request.url}`, { method: 'POST', body })
    response.writeHead(answer.status).end(new Uint8Array(await answer.arrayBuffer()))
  })
  await new Promise<void>(resolve => liar.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(liar.address() as AddressInfo).port}`
}

let nodes: [Node, Node, Node]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  nodes = (await startNodes(3, vault.writerKey)) as [Node, Node, Node]
  introduce(nodes)
  await vault.reshare({ addresses: addressesOf(nodes) })
})

test('where a new node says that an old one lied, both are named', async () => {
  const [first, second, third] = nodes
  const url = await startLiar(second, [0])
  const remote = await open()
  const addresses = addressesOf([first, { ...second, url }, third])
  expect(await remote.reshare({ addresses })).toEqual({
    generation: 3,
    leftOut: [
      `node 0 at ${first.url}: node 1 at ${url} says that what it was sent is not what was published: one of the two lies`,
    ],
  })
  expect(await reveal(remote, nameOf('key'), [0, 2])).toBe(VALUE)
})

test('a new node that says so of too many stops the resharing, and is named with each', async () => {
  const [first, second, third] = nodes
  const url = await startLiar(second, [0, 1, 2])
  const remote = await open()
  const addresses = addressesOf([first, { ...second, url }, third])
  const { message } = await failureOf(remote.reshare({ addresses }))
  expect(message).toMatch(/^1 of the 2 nodes it takes have dealt\n/)
  expect(message.match(/node \d at \S+ says that/g)).toEqual(
    Array(2).fill(`node 1 at ${url} says that`),
  )
  expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
})
