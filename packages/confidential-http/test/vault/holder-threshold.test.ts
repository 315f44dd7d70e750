import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys, createPermissions } from 'sluice/internal'
import { VaultFolder } from '../../vault/files.js'
import { readWriter } from '../../vault/identity.js'
import { openVault } from '../../vault/open-vault.js'
import { type Order, signOrder } from '../../vault/process/order.js'
import { askHolder } from '../../vault/process/protocol.js'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  startHolder,
  startHolders,
  trust,
  trustOf,
} from '../support/vault/holder-processes.js'
import { nameOf, place, reveal, VALUE, vault } from '../support/vault/vault.js'

let holders: [Holder, Holder, Holder]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  await vault.reshare({ addresses: addressesOf(holders) })
})

const tooLow = (threshold: number, min: number): string =>
  `the order has threshold ${threshold}, and this holder's minThreshold is ${min}: to lower it, change its holder.json`

describe('the least threshold of a holder', () => {
  test('is that of its shares, until its operator lowers it', async () => {
    const remote = await open()
    const least = () => holders.map(({ directory }) => trustOf(directory).minThreshold)
    expect(least()).toEqual([2, 2, 2])
    await remote.reshare({ threshold: 3 })
    expect(least()).toEqual([3, 3, 3])
    const { message } = await failureOf(remote.reshare({ threshold: 2 }))
    expect(message).toMatch(
      /^holder \d at \S+: it says "the order has threshold 2, and this holder's/,
    )
    for (const { directory } of holders) trust(directory, { minThreshold: 2 })
    await remote.reshare({ threshold: 2 })
    expect(least()).toEqual([2, 2, 2])
    expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
  })

  test('keeps the share from a thief of one holder and of the key of the writer', async () => {
    const [stolen, second, third] = holders
    const [evil, directory] = [place(), place()]
    cpSync(vault.directory, evil, { recursive: true })
    cpSync(stolen.directory, directory, { recursive: true })
    rmSync(join(directory, 'audit.jsonl.lock'))
    trust(directory, { minThreshold: 1 })
    const { url } = await startHolder({ directory })
    const theft = await openVault(evil)
    const addresses = [{ url, key: stolen.key }]
    const failed = await failureOf(theft.reshare({ addresses, threshold: 1 }))
    expect(failed.message.split('\n  ').sort()).toEqual([
      '0 of the 2 holders it takes have dealt',
      ...holders.map(
        holder => `holder ${holders.indexOf(holder)} at ${holder.url}: it says "${tooLow(1, 2)}"`,
      ),
    ])
    for (const { logged } of [second, third])
      expect(logged.filter(line => !line.startsWith('holder: '))).toEqual([])
  })

  test('is held against every order, and is more than one where its file does not say it', async () => {
    const orders: [
      string,
      (order: Omit<Order, 'id' | 'signedAt'>, key: string) => object,
      string,
    ][] = [
      ['a new key of threshold 1', () => ({ isFresh: true, threshold: 1 }), tooLow(1, 2)],
      [
        'a holder that is named twice',
        (_order, key) => ({ receivers: [key, key] }),
        'the order is malformed',
      ],
      [
        'half a threshold',
        () => ({ threshold: 2.5 }),
        'the order: threshold must be a whole number, not 2.5',
      ],
      [
        'a threshold in words',
        () => ({ threshold: '2' }),
        'the order: threshold must be a number, not string',
      ],
      [
        'receivers that are none',
        () => ({ receivers: [1, 2] }),
        'the order: receivers[0] must be 64 lower-case hexadecimal digits',
      ],
      [
        'nothing',
        () => ({ receivers: undefined }),
        'the order: receivers must be a list of 0 to 31 entries',
      ],
    ]
    const folder = new VaultFolder(vault.directory, createPermissions({}))
    const writer = await readWriter(folder, vault.writerKey)
    const receivers = holders.map(({ key }) => key)
    const order = { generation: 2, threshold: 2, isFresh: false, receivers }
    for (const [of, change, message] of orders) {
      const { id: _, ...signed } = signOrder(
        { ...order, ...change(order, holders[0].key) } as Omit<Order, 'id' | 'signedAt'>,
        writer,
      )
      for (const kind of ['invite', 'deal', 'accept']) {
        const failure = await failureOf(askHolder(holders[1], boxKeys(), { kind, ...signed }))
        const said = { code: 'VAULT', message: `it says "${message}"` }
        expect({ of, failure }).toMatchObject({ of, failure: said })
      }
    }
    for (const { directory } of holders) trust(directory, { minThreshold: undefined })
    const { message } = await failureOf((await open()).reshare({ threshold: 1 }))
    expect(message).toContain(tooLow(1, 2))
  })

  test('may be named before the first share, and each deal is logged', async () => {
    const others = await startHolders(2, vault.writerKey)
    const all = [...holders, ...others]
    introduce(all)
    for (const { directory } of others) trust(directory, { minThreshold: 4 })
    const remote = await open()
    const { message } = await failureOf(
      remote.reshare({ addresses: addressesOf(all), threshold: 3 }),
    )
    expect(message).toContain(tooLow(3, 4))
    await remote.reshare({ addresses: addressesOf(all), threshold: 4 })
    const shown = all.map(({ key }) => `${key.slice(0, 8)}...`).join(', ')
    for (const { logged } of holders)
      expect(logged.filter(line => !line.startsWith('holder: '))).toEqual([
        `deals its share of generation 2, of threshold 4, to ${shown}`,
      ])
  })
})
