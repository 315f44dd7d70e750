// Holders that a resharing leaves out while they are away, and shares that live for so long only.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

const DAY = 86_400_000

let holders: [Holder, Holder, Holder]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
})
afterEach(() => void jest.restoreAllMocks())

/** The dropped holders that the newest manifest names. */
const droppedOf = async (): Promise<unknown> => {
  const { sequence } = await (await open()).current()
  const text = readFileSync(join(vault.directory, 'manifests', `${sequence}.json`), 'utf8')
  return JSON.parse(text).body.dropped
}

test('a holder that was dropped while it was away deletes its share when the vault is next used', async () => {
  const [first, second, gone] = holders
  await gone.stop()
  const remote = await open()
  await remote.reshare({ addresses: addressesOf([first, second]) })
  expect(sharesOf(gone)).toEqual(['2.json'])
  expect(await droppedOf()).toEqual([{ url: gone.url, key: gone.key }])
  await gone.start()
  // As an enclave does, after its start.
  const enclave = await open()
  expect(await reveal(enclave, nameOf('key'))).toBe(VALUE)
  await until(() => sharesOf(gone).length === 0)
  await remote.reshare()
  expect(await droppedOf()).toBeUndefined()
})

test('a share that has expired is deleted by a holder that nobody has reached', async () => {
  const [first, second, gone] = holders
  const remote = await open()
  await remote.reshare({ shareLifetime: DAY })
  expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
  // The lifetime holds for the next generations too.
  await remote.reshare()
  await gone.stop()
  await remote.reshare({ addresses: addressesOf([first, second]) })
  expect(sharesOf(gone)).toEqual(['4.json'])
  const later = Date.now() + DAY + 1000
  jest.spyOn(Date, 'now').mockImplementation(() => later)
  await gone.start()
  expect(sharesOf(gone)).toEqual([])
  expect((await failureOf(reveal(remote, nameOf('key')))).message).toMatch(
    /^the shares of generation 5 expired at /,
  )
})

test('a lifetime of less than a day is refused, and 0 ends one', async () => {
  const remote = await open()
  const { message } = await failureOf(remote.reshare({ shareLifetime: 1000 }))
  expect(message).toMatch(/shareLifetime/)
  await remote.reshare({ shareLifetime: DAY })
  await remote.reshare({ shareLifetime: 0 })
  const { sequence } = await remote.current()
  const file = join(vault.directory, 'manifests', `${sequence}.json`)
  expect(JSON.parse(readFileSync(file, 'utf8')).body).not.toHaveProperty('sharesExpireAt')
})
