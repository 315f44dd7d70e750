// One malicious node of three, threshold 2: it has its own key, the order that it was sent, and the addresses of the others.
import { readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { boxKeys } from '../../../crypto/sealed-box.js'
import {
  askNode,
  type NodeRequest,
  openNodeRequest,
  sealNodeAnswer,
} from '../../../local/vault/process/protocol.js'
import {
  addressesOf,
  introduce,
  type Node,
  open,
  sharesOf,
  startNodes,
} from '../../support/local/node-processes.js'
import { nameOf, reveal, VALUE, vault } from '../../support/local/vault.js'
import { failureOf } from '../../support/waiting.js'

const PAIRS = [
  [0, 1],
  [1, 2],
  [0, 2],
]
const servers: Server[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map(each => new Promise(done => each.close(done))))
})

/** What stands before a node: sees its requests, and may answer in its place. */
type Front = (request: NodeRequest) => Promise<object | undefined>

/** Serves in place of a node, with its key. What `front` does not answer the node itself does. */
async function standBefore(node: Node, front: Front): Promise<string> {
  const secret = readFileSync(join(node.directory, 'node.key'), 'utf8').trim()
  const keys = boxKeys(Buffer.from(secret, 'hex'))
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    const opened = openNodeRequest(body, keys)
    const given = opened && (await front(opened.request))
    if (opened !== undefined && given !== undefined)
      return void response.end(sealNodeAnswer(given, opened.replyTo, keys))
    const answer = await fetch(`${node.url}${request.url}`, { method: 'POST', body })
    response.writeHead(answer.status).end(new Uint8Array(await answer.arrayBuffer()))
  })
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

let nodes: [Node, Node, Node]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  nodes = (await startNodes(3, vault.writerKey)) as [Node, Node, Node]
  introduce(nodes)
  await vault.reshare({ addresses: addressesOf(nodes) })
})

type Fields = Readonly<Record<string, unknown>>

/** Has all honest nodes deal again with an order, and accept that: what it takes is what the malicious node was sent. */
async function driveAnew(order: Fields, isStepped: boolean): Promise<void> {
  const ask = (node: Node, request: Fields) => askNode(node, boxKeys(), request as NodeRequest)
  // The manifest that the node was sent, once more.
  for (const node of nodes) await ask(node, { kind: 'manifest', text: order.text })
  const dealers = nodes.map(({ key }) => key)
  const signed = { order: order.order, signature: order.signature }
  // What the writer has signed for the malicious node itself.
  const step = isStepped ? { step: order.step, attempt: order.attempt } : {}
  const invited = await Promise.all(
    nodes.map(async node => {
      const { invitations } = await ask(node, { kind: 'invite', ...signed, dealers })
      return invitations as string[]
    }),
  )
  const dealt = await Promise.all(
    nodes.map((node, at) => {
      const invitations = invited.map(each => each[at])
      return ask(node, { kind: 'deal', ...signed, ...step, invitations }).catch(() => undefined)
    }),
  )
  const chosen = dealt.filter(each => each !== undefined).slice(0, 2)
  const dealings = chosen.map(({ dealing }) => dealing)
  for (const [at, node] of nodes.slice(0, 2).entries()) {
    const sealed = chosen.map(each => (each.sealed as string[])[at])
    await ask(node, { kind: 'accept', ...signed, ...step, dealings, sealed }).catch(() => undefined)
  }
}

describe.each(['reshare', 'rotate'] as const)('while the vault is to %s', change => {
  test.each(['invite', 'deal', 'accept', 'prove', 'manifest'])(
    'a node that drives the others anew when it is asked to %s destroys nothing',
    async kind => {
      let order: Fields = {}
      let attacks = 0
      const [first, second, third] = nodes
      const url = await standBefore(third, async request => {
        order = { ...order, ...request }
        if (request.kind !== kind || order.order === undefined) return undefined
        // The others have done their part meanwhile.
        await new Promise(done => setTimeout(done, 150))
        attacks++
        for (const isStepped of [false, true])
          await driveAnew(order, isStepped).catch(() => undefined)
        return undefined
      })
      const remote = await open()
      const addresses = addressesOf([first, second, { ...third, url }])
      await remote.reshare({ addresses })
      order = {}
      attacks = 0
      if (change === 'reshare') await remote.reshare()
      else await remote.rotate()
      expect(attacks).toBeGreaterThan(0)
      for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
      for (const node of nodes) expect(sharesOf(node)).toEqual([`${remote.generation}.json`])
    },
  )

  test.each([
    ['accepts nothing, and says that it has', 'accept', { answer: { complaints: [] } }],
    ['shows no share', 'prove', { failure: { code: 'VAULT', message: 'no' } }],
    ['shows the share of another', 'prove', { answer: { share: '{"Index":0}' } }],
    ['has not accepted the manifest', 'manifest', { failure: { code: 'VAULT', message: 'no' } }],
  ] as const)('a node that %s is named, and nothing is lost', async (_name, kind, answer) => {
    const [first, second, third] = nodes
    let isLying = false
    const url = await standBefore(third, async request =>
      isLying && request.kind === kind ? answer : undefined,
    )
    const remote = await open()
    await remote.reshare({ addresses: addressesOf([first, second, { ...third, url }]) })
    const { generation } = remote
    isLying = true
    const outcome = await (change === 'reshare' ? remote.reshare() : remote.rotate()).then(
      ({ leftOut }) => leftOut.join('\n'),
      (error: Error) => error.message,
    )
    expect(outcome).toContain(url)
    expect(outcome).not.toContain(first.url)
    expect(outcome).not.toContain(second.url)
    expect(await reveal(remote, nameOf('key'), [0, 1])).toBe(VALUE)
    // Nobody deletes an old share before the new ones are shown.
    for (const node of [first, second])
      expect(sharesOf(node)).toContain(`${Math.min(generation, remote.generation)}.json`)
    isLying = false
    await (change === 'reshare' ? remote.reshare() : remote.rotate())
    for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
    for (const node of nodes) expect(sharesOf(node)).toEqual([`${remote.generation}.json`])
  })
})

test('a node that has lost its share says so, and the change is taken back', async () => {
  const [first, second, third] = nodes
  let isLosing = true
  const url = await standBefore(third, async request => {
    // A disk that loses what was written, once it was shown.
    if (request.kind === 'manifest' && isLosing)
      for (const file of sharesOf(third))
        if (file.startsWith('pending-')) rmSync(join(third.directory, 'shares', file))
    return undefined
  })
  const remote = await open()
  const addresses = addressesOf([first, second, { ...third, url }])
  expect((await failureOf(remote.reshare({ addresses }))).message).toBe(
    `new nodes have no share, and the change was taken back\n  the node at ${url} has no share of generation 3`,
  )
  for (const node of nodes) expect(sharesOf(node)).toEqual(['2.json'])
  for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
  isLosing = false
  expect(await remote.reshare({ addresses })).toEqual({ generation: 3, leftOut: [] })
  for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
})
