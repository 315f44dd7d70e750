// A holder that a resharing leaves out while it is away, and that only the next change of the key reaches.
import { expect, test } from '@jest/globals'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

test('a holder that was dropped while it was away deletes its share by the next change of the key', async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  const holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
  const [first, second, gone] = holders
  await gone.stop()
  const remote = await open()
  await remote.reshare({ addresses: addressesOf([first, second]) })
  expect((await remote.reshare()).leftOut.join()).toContain(gone.url)
  await gone.start()
  expect((await remote.reshare()).leftOut).toEqual([])
  expect(sharesOf(gone)).toEqual([])
  // Nothing is left to be dropped.
  expect((await remote.reshare()).leftOut).toEqual([])
  expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
})
