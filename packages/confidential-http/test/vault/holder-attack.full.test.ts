// One malicious holder of three, threshold 2. What it does with each message is in holder-attack-table.test.ts.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { standBefore } from '../support/vault/holder-attack.js'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

const PAIRS = [
  [0, 1],
  [1, 2],
  [0, 2],
]
let holders: [Holder, Holder, Holder]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
})

describe.each(['reshare', 'rotate'] as const)('while the vault is to %s', change => {
  test.each([
    ['accepts nothing, and says that it has', 'accept', { answer: { complaints: [] } }],
    ['shows no share', 'prove', { failure: { code: 'VAULT', message: 'no' } }],
    ['shows the share of another', 'prove', { answer: { share: '{"Index":0}' } }],
    ['has not accepted the manifest', 'manifest', { failure: { code: 'VAULT', message: 'no' } }],
  ] as const)('a holder that %s is named, and nothing is lost', async (_name, kind, answer) => {
    const [first, second, third] = holders
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
    for (const holder of [first, second])
      expect(sharesOf(holder)).toContain(`${Math.min(generation, remote.generation)}.json`)
    isLying = false
    await (change === 'reshare' ? remote.reshare() : remote.rotate())
    for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
    for (const holder of holders) expect(sharesOf(holder)).toEqual([`${remote.generation}.json`])
  })
})

test('a holder that has lost its share says so, and the change is taken back', async () => {
  const [first, second, third] = holders
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
    `new holders have no share, and the change was taken back\n  the holder at ${url} has no share of generation 3`,
  )
  for (const holder of holders) expect(sharesOf(holder)).toEqual(['2.json'])
  for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
  isLosing = false
  expect(await remote.reshare({ addresses })).toEqual({ generation: 3, leftOut: [] })
  for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
})

test('a new holder whose invitations are wrong is named by each old one that it has sent one', async () => {
  const [first, second, third] = holders
  const url = await standBefore(third, async request =>
    request.kind === 'invite' ? { answer: { invitations: ['AAAA', 'AAAA', 'AAAA'] } } : undefined,
  )
  const remote = await open()
  const addresses = addressesOf([first, second, { ...third, url }])
  const says = `it says that its invitation is not of holder 2 at ${url}: one of the two lies`
  const [head, ...lines] = (await failureOf(remote.reshare({ addresses }))).message.split('\n  ')
  expect(head).toBe('0 of the 2 holders it takes have dealt')
  expect(lines.sort()).toEqual(
    holders.map((holder, at) => `holder ${at} at ${holder.url}: ${says}`),
  )
  expect(await reveal(remote, nameOf('key'), [0, 1])).toBe(VALUE)
})

test('a secret that is put while the key is reshared stands in nobody’s way', async () => {
  const [first, second, third] = holders
  const remote = await open()
  let isPutting = true
  // Whoever uses the vault meanwhile has sent the holder a later manifest than the resharing begins with.
  const url = await standBefore(third, async request => {
    if (request.kind !== 'manifest' || !isPutting) return undefined
    isPutting = false
    await vault.put({ key: 'other' }, VALUE, { policy: 'anywhere' })
    expect(await reveal(await open(), nameOf('other'), [0, 1, 2])).toBe(VALUE)
    return undefined
  })
  const addresses = addressesOf([first, second, { ...third, url }])
  expect(await remote.reshare({ addresses })).toEqual({ generation: 3, leftOut: [] })
  for (const key of ['key', 'other'])
    for (const pair of PAIRS) expect(await reveal(remote, nameOf(key), pair)).toBe(VALUE)
})
