// Worlds in which a rule of the model of resharing (test/model/resharing.test.ts) was broken, on real holders.
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { createKeys } from 'sluice/internal'
import type { Vault } from '../../vault/index.js'
import { askHolder, type HolderRequest } from '../../vault/process/protocol.js'
import { keysOf, standBefore } from '../support/vault/holder-attack.js'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, place, reveal, VALUE, vault } from '../support/vault/vault.js'

const PAIRS = [
  [0, 1],
  [1, 2],
  [0, 2],
]
let holders: [Holder, Holder, Holder]
let remote: Vault
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  await vault.put({ key: 'old' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
  remote = await open()
})

/** Loses the share of the next generation, once it was shown. */
function losePending(holder: Holder): void {
  for (const file of sharesOf(holder))
    if (file.startsWith('pending-')) rmSync(join(holder.directory, 'shares', file))
}

describe('a rotation whose shares are lost after a secret was put with the new key', () => {
  /** Makes the holders lose their new shares before they are told of the new key, and changes secrets in between. */
  async function rotateAndLose(
    losing: readonly Holder[],
    work: (writer: Vault) => Promise<void>,
  ): Promise<{ readonly message: string; readonly urls: readonly string[] }> {
    let isLosing = false
    let isRotating = false
    let isChanged = false
    const urls = await Promise.all(
      losing.map(holder =>
        standBefore(holder, async request => {
          if (request.kind === 'prove') isLosing = isRotating
          if (request.kind !== 'manifest' || !isLosing) return undefined
          losePending(holder)
          if (isChanged) return undefined
          isChanged = true
          await work(vault)
          return undefined
        }),
      ),
    )
    const fronts = losing.map((holder, at) => ({ ...holder, url: urls[at] as string }))
    const stand = holders.map(holder => fronts.find(({ key }) => key === holder.key) ?? holder)
    await remote.reshare({ addresses: addressesOf(stand) })
    isRotating = true
    const { message } = await failureOf(remote.rotate())
    isRotating = false
    isLosing = false
    return { message, urls }
  }

  test('is taken back where too few are left to read by it, and each secret that goes with it is named', async () => {
    const [, second, third] = holders
    const { message, urls } = await rotateAndLose([second, third], async writer => {
      await writer.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
      await writer.put({ key: 'key' }, 'a later value', { policy: 'anywhere' })
      await writer.remove({ key: 'old' })
    })
    const [head, ...lines] = message.split('\n  ')
    expect(head).toBe('new holders have no share, and the change was taken back')
    const { owner, namespace } = nameOf('key')
    const lost = (key: string): string =>
      `0x${owner}::${namespace}::${key} was put with the key that is lost: put it again`
    expect(lines.sort()).toEqual(
      [
        ...urls.map(url => `the holder at ${url} has no share of generation 4`),
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
    const [, second, third] = holders
    const { message } = await rotateAndLose([second, third], async writer => {
      for (let each = 0; each < 20; each++)
        await writer.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
    })
    expect(message).toMatch(/^new holders have no share, and the change was taken back/)
    for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
  })

  test('stays where enough are left, and nothing that was put is lost', async () => {
    const [, , third] = holders
    const { message, urls } = await rotateAndLose([third], async writer => {
      await writer.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
    })
    expect(message).toBe(
      `holders have no share of the new key, and secrets were put with it: reshare without them\n  the holder at ${urls[0]} has no share of generation 4`,
    )
    await remote.reshare()
    for (const key of ['key', 'other'])
      for (const pair of PAIRS) expect(await reveal(remote, nameOf(key), pair)).toBe(VALUE)
  })
})

test('a change that another process has settled is not taken back for a holder whose disk was put back', async () => {
  const [first, second, third] = holders
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
    // Another process settles the change, and goes no further, as its new holder is away.
    const away = { url: 'http://127.0.0.1:9', key: createKeys().publicKey }
    await failureOf(remote.reshare({ addresses: [...addressesOf([first, second]), away] }))
    for (const holder of holders) expect(sharesOf(holder)).toEqual(['3.json'])
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
  const leftOut = [`holder 2 at ${url}: shares/3.json is missing`]
  expect(await other.reshare()).toEqual({ generation: 4, leftOut })
  for (const pair of PAIRS) expect(await reveal(other, nameOf('key'), pair)).toBe(VALUE)
})

test('what a holder was sent for an earlier attempt does not come in place of what it has accepted since', async () => {
  const [first, second, third] = holders
  let isLying = false
  const ask = (holder: Holder, { replyTo: _, ...fields }: HolderRequest) =>
    askHolder(holder, keysOf(third), fields as HolderRequest)
  // Deals what is right to the first, and what is wrong to the second, which complains.
  const liar = await standBefore(third, async request => {
    if (!isLying || request.kind !== 'deal') return undefined
    const { dealing, sealed } = (await ask(third, request)) as { sealed: string[]; dealing: string }
    return { answer: { dealing, sealed: [sealed[0], sealed[1], sealed[1]] } }
  })
  const accepted: HolderRequest[] = []
  let said: unknown
  const url = await standBefore(first, async request => {
    if (!isLying) return undefined
    if (request.kind === 'accept') accepted.push(request)
    // The network repeats it once the holder has shown its share.
    if (request.kind === 'manifest' && String(request.text).includes('"isUnsettled":true'))
      said = (await failureOf(ask(first, accepted[0] as HolderRequest))).message
    return undefined
  })
  const addresses = addressesOf([{ ...third, url: liar }, { ...first, url }, second])
  await remote.reshare({ addresses })
  isLying = true
  const { generation, leftOut } = await remote.reshare()
  expect(accepted.map(({ attempt }) => attempt)).toEqual([1, 2])
  expect(said).toBe('the holder has accepted attempt 2 of this order')
  expect(generation).toBe(4)
  expect(leftOut).toEqual([expect.stringContaining(liar)])
  for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
})
