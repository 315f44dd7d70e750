// Worlds in which a rule of the model of resharing (test/model/resharing.test.ts) was broken, on real nodes.
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import type { Vault } from '../../vault/index.js'
import { askNode, type NodeRequest } from '../../vault/process/protocol.js'
import { keysOf, standBefore } from '../support/vault/node-attack.js'
import {
  addressesOf,
  introduce,
  type Node,
  open,
  sharesOf,
  startNodes,
} from '../support/vault/node-processes.js'
import { nameOf, place, reveal, VALUE, vault } from '../support/vault/vault.js'

const PAIRS = [
  [0, 1],
  [1, 2],
  [0, 2],
]
let nodes: [Node, Node, Node]
let remote: Vault
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  await vault.put({ key: 'old' }, VALUE, { policy: 'anywhere' })
  nodes = (await startNodes(3, vault.writerKey)) as [Node, Node, Node]
  introduce(nodes)
  await vault.reshare({ addresses: addressesOf(nodes) })
  remote = await open()
})

/** Loses the share of the next generation, once it was shown. */
function losePending(node: Node): void {
  for (const file of sharesOf(node))
    if (file.startsWith('pending-')) rmSync(join(node.directory, 'shares', file))
}

describe('a rotation whose shares are lost after a secret was put with the new key', () => {
  /** Makes the nodes lose their new shares before they are told of the new key, and changes secrets in between. */
  async function rotateAndLose(
    losing: readonly Node[],
    work: (writer: Vault) => Promise<void>,
  ): Promise<{ readonly message: string; readonly urls: readonly string[] }> {
    let isLosing = false
    let isRotating = false
    let isChanged = false
    const urls = await Promise.all(
      losing.map(node =>
        standBefore(node, async request => {
          if (request.kind === 'prove') isLosing = isRotating
          if (request.kind !== 'manifest' || !isLosing) return undefined
          losePending(node)
          if (isChanged) return undefined
          isChanged = true
          await work(vault)
          return undefined
        }),
      ),
    )
    const fronts = losing.map((node, at) => ({ ...node, url: urls[at] as string }))
    const stand = nodes.map(node => fronts.find(({ key }) => key === node.key) ?? node)
    await remote.reshare({ addresses: addressesOf(stand) })
    isRotating = true
    const { message } = await failureOf(remote.rotate())
    isRotating = false
    isLosing = false
    return { message, urls }
  }

  test('is taken back where too few are left to read by it, and each secret that goes with it is named', async () => {
    const [, second, third] = nodes
    const { message, urls } = await rotateAndLose([second, third], async writer => {
      await writer.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
      await writer.put({ key: 'key' }, 'a later value', { policy: 'anywhere' })
      await writer.remove({ key: 'old' })
    })
    const [head, ...lines] = message.split('\n  ')
    expect(head).toBe('new nodes have no share, and the change was taken back')
    const { owner, namespace } = nameOf('key')
    const lost = (key: string): string =>
      `0x${owner}::${namespace}::${key} was put with the key that is lost: put it again`
    expect(lines.sort()).toEqual(
      [
        ...urls.map(url => `the node at ${url} has no share of generation 4`),
        lost('key'),
        lost('other'),
      ].sort(),
    )
    for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
    // What was removed does not come back.
    expect((await remote.list()).map(({ key }) => key)).toEqual(['key'])
    await remote.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
    for (const pair of PAIRS) expect(await reveal(remote, nameOf('other'), pair)).toBe(VALUE)
  })

  test('is taken back also after many other changes', async () => {
    const [, second, third] = nodes
    const { message } = await rotateAndLose([second, third], async writer => {
      for (let each = 0; each < 20; each++)
        await writer.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
    })
    expect(message).toMatch(/^new nodes have no share, and the change was taken back/)
    for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
  })

  test('stays where enough are left, and nothing that was put is lost', async () => {
    const [, , third] = nodes
    const { message, urls } = await rotateAndLose([third], async writer => {
      await writer.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
    })
    expect(message).toBe(
      `nodes have no share of the new key, and secrets were put with it: reshare without them\n  the node at ${urls[0]} has no share of generation 4`,
    )
    await remote.reshare()
    for (const key of ['key', 'other'])
      for (const pair of PAIRS) expect(await reveal(remote, nameOf(key), pair)).toBe(VALUE)
  })
})

test('a change that another process has settled is not taken back for a node whose disk was put back', async () => {
  const [first, second, third] = nodes
  const before = place()
  const parts = ['shares', 'manifest.json']
  for (const part of parts)
    cpSync(join(third.directory, part), join(before, part), { recursive: true })
  const other = await open()
  let stage: 'away' | 'asked' | 'there' = 'away'
  const url = await standBefore(third, async request => {
    if (request.kind !== 'manifest' || stage === 'there') return undefined
    if (stage === 'away')
      return String(request.text).includes('"isUnsettled":true') ? 'nothing' : undefined
    stage = 'there'
    // Another process settles the change, and goes no further, as its new node is away.
    const away = { url: 'http://127.0.0.1:9', key: vault.writerKey }
    await failureOf(remote.reshare({ addresses: [...addressesOf([first, second]), away] }))
    for (const node of nodes) expect(sharesOf(node)).toEqual(['3.json'])
    await third.stop()
    for (const part of parts) {
      rmSync(join(third.directory, part), { recursive: true })
      cpSync(join(before, part), join(third.directory, part), { recursive: true })
    }
    await third.start()
    return undefined
  })
  const addresses = addressesOf([first, second, { ...third, url }])
  expect((await remote.reshare({ addresses })).leftOut).toHaveLength(1)
  stage = 'asked'
  const leftOut = [`node 2 at ${url}: shares/3.json is missing`]
  expect(await other.reshare()).toEqual({ generation: 4, leftOut })
  for (const pair of PAIRS) expect(await reveal(other, nameOf('key'), pair)).toBe(VALUE)
})

test('what a node was sent for an earlier attempt does not come in place of what it has accepted since', async () => {
  const [first, second, third] = nodes
  let isLying = false
  const ask = (node: Node, { replyTo: _, ...fields }: NodeRequest) =>
    askNode(node, keysOf(third), fields as NodeRequest)
  // Deals what is right to the first, and what is wrong to the second, which complains.
  const liar = await standBefore(third, async request => {
    if (!isLying || request.kind !== 'deal') return undefined
    const { dealing, sealed } = (await ask(third, request)) as { sealed: string[]; dealing: string }
    return { answer: { dealing, sealed: [sealed[0], sealed[1], sealed[1]] } }
  })
  const accepted: NodeRequest[] = []
  let said: unknown
  const url = await standBefore(first, async request => {
    if (!isLying) return undefined
    if (request.kind === 'accept') accepted.push(request)
    // The network repeats it once the node has shown its share.
    if (request.kind === 'manifest' && String(request.text).includes('"isUnsettled":true'))
      said = (await failureOf(ask(first, accepted[0] as NodeRequest))).message
    return undefined
  })
  const addresses = addressesOf([{ ...third, url: liar }, { ...first, url }, second])
  await remote.reshare({ addresses })
  isLying = true
  const { generation, leftOut } = await remote.reshare()
  expect(accepted.map(({ attempt }) => attempt)).toEqual([1, 2])
  expect(said).toBe('the node has accepted attempt 2 of this order')
  expect(generation).toBe(4)
  expect(leftOut).toEqual([expect.stringContaining(liar)])
  for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
})
