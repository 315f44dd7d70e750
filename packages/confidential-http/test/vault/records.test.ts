// Who has changed a vault, and who was given what by its holders: in audit logs beside them.
import {
  chownSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, test } from '@jest/globals'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { openAuditLog, verifyAudit } from '../../index.js'
import { openVault } from '../../vault/open-vault.js'
import {
  addressesOf,
  caller,
  type Holder,
  introduce,
  open,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, OWNER, reveal, VALUE, vault } from '../support/vault/vault.js'

const fileIn = (directory: string): string => join(directory, 'audit.jsonl')
const recordsIn = (directory: string): Record<string, unknown>[] =>
  readFileSync(fileIn(directory), 'utf8')
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))

let holders: [Holder, Holder, Holder]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
})

/** Has three holders of their own hold the key. */
async function shareOut(): Promise<void> {
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
}

test('a vault has a record of each act, with who did it, and none of a value', async () => {
  await shareOut()
  const remote = await open()
  await remote.put({ key: 'key' }, 'another value', { policy: 'anywhere' })
  await remote.restore({ key: 'key' }, 1)
  await remote.remove({ key: 'key' })
  await remote.rotate()
  const acts = recordsIn(vault.directory)
  const secret = `${OWNER}/main/key`
  expect(acts.map(({ act, secret: of, version }) => [act, of, version])).toEqual([
    ['put', secret, 1],
    ['reshare', undefined, undefined],
    ['settle', undefined, undefined],
    ['put', secret, 2],
    ['restore', secret, 3],
    ['remove', secret, undefined],
    ['rotate', undefined, undefined],
    ['settle', undefined, undefined],
  ])
  expect(acts.map(({ change }) => change)).toEqual([2, 3, 4, 5, 6, 7, 8, 9])
  expect(acts[0]).toMatchObject({ by: { pid: process.pid, host: expect.any(String) } })
  const text = readFileSync(fileIn(vault.directory), 'utf8')
  for (const value of [VALUE, 'another value']) expect(text).not.toContain(value)
  expect(await verifyAudit(fileIn(vault.directory))).toMatchObject({ unrecorded: [] })
})

test('an act whose process ended before it was recorded is missed', async () => {
  const put = (key: string) => vault.put({ key }, VALUE, { policy: 'anywhere' })
  await put('a')
  const { sequence } = await vault.current()
  // As if it had ended there: the record of this one is not written.
  const written = readFileSync(fileIn(vault.directory))
  await put('b')
  rmSync(fileIn(vault.directory))
  writeFileSync(fileIn(vault.directory), written, { mode: 0o600 })
  await put('c')
  expect(await verifyAudit(fileIn(vault.directory))).toMatchObject({ unrecorded: [sequence + 1] })
})

test('an act that can not be recorded says that it was made, and is missed from then on', async () => {
  const file = fileIn(vault.directory)
  const put = (key: string) => vault.put({ key }, VALUE, { policy: 'anywhere' })
  // The lock of the log can't be taken.
  mkdirSync(`${file}.lock`)
  const { sequence: before } = await vault.current()
  const failed = await failureOf(put('a'))
  expect(failed).toMatchObject({ code: 'AUDIT' })
  expect(failed.message).toMatch(
    `change ${before + 1} was made, and is not recorded: the lock file ${file}.lock must be`,
  )
  expect((await vault.list()).map(({ key }) => key)).toContain('a')
  rmSync(`${file}.lock`, { recursive: true })
  // It was the last one: the log alone does not say that there was another.
  expect(await verifyAudit(file)).toMatchObject({ unrecorded: [] })
  expect(await verifyAudit(file, { lastChange: before + 1 })).toMatchObject({
    unrecorded: [before + 1],
  })
  await put('b')
  expect(await verifyAudit(file)).toMatchObject({ unrecorded: [before + 1] })
})

test('a holder has a record of each release, and of its part in resharings', async () => {
  await shareOut()
  const remote = await open()
  expect(await reveal(remote, nameOf('key'), [0, 1])).toBe(VALUE)
  const stranger = await openVault(vault.directory, { callerSecretKey: 'ab'.repeat(32) })
  await failureOf(reveal(stranger, nameOf('key'), [0]))
  await remote.reshare()
  const [{ directory }] = holders
  const acts = recordsIn(directory).map(({ type, caller: by, secret, code }) => [
    type,
    by,
    secret,
    code,
  ])
  const released = ['release', caller.publicKey, `${OWNER}/main/key`, undefined]
  expect(acts).toEqual([
    ['start', undefined, undefined, undefined],
    ['accept', undefined, undefined, undefined],
    released,
    ['deal', undefined, undefined, undefined],
    ['accept', undefined, undefined, undefined],
  ])
  for (const holder of holders)
    expect((await verifyAudit(fileIn(holder.directory))).head.seq).toBeGreaterThan(2)
})

test.each(['another-file', '/dev/null', 'file of another user'].slice(0, inForm(1, 3)))(
  'no log is a link, to %s: neither of a vault, nor of a holder, nor of an enclave',
  async target => {
    await shareOut()
    const rule = /audit\.jsonl is a symbolic link, and an audit log must not be one/
    const other = target.startsWith('/') ? target : join(vault.directory, '..', target)
    if (other !== target) writeFileSync(other, '', { mode: 0o600 })
    // As root alone can give a file away.
    if (target.startsWith('file') && process.getuid?.() === 0) chownSync(other, 65_534, 65_534)
    const link = (directory: string): void => {
      renameSync(fileIn(directory), `${fileIn(directory)}-away`)
      symlinkSync(other, fileIn(directory))
    }
    link(vault.directory)
    const before = await vault.current()
    const put = await failureOf(vault.put({ key: 'key' }, 'new', { policy: 'anywhere' }))
    expect(put).toMatchObject({ code: 'AUDIT', message: expect.stringMatching(rule) })
    expect(await vault.current()).toBe(before)
    expect(await failureOf(openAuditLog({ file: fileIn(vault.directory) }))).toMatchObject({
      code: 'AUDIT',
      message: expect.stringMatching(rule),
    })
    const [holder] = holders
    await holder.stop()
    link(holder.directory)
    expect(await failureOf(holder.start())).toMatchObject({
      code: 'AUDIT',
      message: expect.stringMatching(rule),
    })
    if (other !== target) expect(readFileSync(other, 'utf8')).toBe('')
  },
)

test('a holder gives nothing that it can not record: its log is gone, or becomes a link to itself', async () => {
  await shareOut()
  const remote = await open()
  const [gone, linked] = holders
  const unrecorded = 'it says "the request can not be recorded"'
  rmSync(fileIn(gone.directory))
  expect((await failureOf(reveal(remote, nameOf('key'), [0]))).message).toBe(unrecorded)
  expect(await reveal(remote, nameOf('key'), [1, 2])).toBe(VALUE)
  const file = fileIn(linked.directory)
  renameSync(file, `${file}-away`)
  symlinkSync(`${file}-away`, file)
  expect((await failureOf(reveal(remote, nameOf('key'), [1]))).message).toBe(unrecorded)
})
