// Holders that a resharing leaves out while they are away, and shares that live for so long only.
import { cpSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals'
import { failureOf, until } from '@sluice/test-support/waiting.js'
import { boxKeys, createPermissions } from 'sluice/internal'
import { readKeyFile } from '../../key-file.js'
import { VaultFolder } from '../../vault/files.js'
import { createWriter, readWriter } from '../../vault/identity.js'
import {
  type DroppedHolder,
  digestOf,
  type SignedManifest,
  type SignedNotice,
} from '../../vault/manifest.js'
import { type Notice, signNotice } from '../../vault/process/order.js'
import { askHolder, type HolderRequest, openHolderRequest } from '../../vault/process/protocol.js'
import type { Vault } from '../../vault/vault.js'
import {
  addressesOf,
  caller,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolder,
  startHolders,
} from '../support/vault/holder-processes.js'
import { nameOf, release, reveal, VALUE, vault } from '../support/vault/vault.js'

const DAY = 86_400_000

let holders: [Holder, Holder, Holder]
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
  introduce(holders)
  await vault.reshare({ addresses: addressesOf(holders) })
})
const closing: (() => void)[] = []
afterEach(() => {
  jest.restoreAllMocks()
  for (const close of closing.splice(0)) close()
})

/** The text of a manifest, by default the newest. To open the vault would tell dropped holders. */
function manifestText(number?: number): string {
  const folder = join(vault.directory, 'manifests')
  const last = Math.max(...readdirSync(folder).map(each => Number.parseInt(each, 10)))
  return readFileSync(join(folder, `${number ?? last}.json`), 'utf8').trimEnd()
}
/** The dropped holders that a manifest names. */
const droppedOf = (number?: number): readonly DroppedHolder[] | undefined =>
  JSON.parse(manifestText(number)).body.dropped
const sendNotice = (to: Holder, notice: SignedNotice): Promise<unknown> =>
  askHolder(to, boxKeys(), { kind: 'notice', ...notice })

test('a holder that was dropped while it was away deletes its share when the vault is next used', async () => {
  const [first, second, gone] = holders
  await gone.stop()
  const remote = await open()
  await remote.reshare({ addresses: addressesOf([first, second]) })
  expect(sharesOf(gone)).toEqual(['2.json'])
  const entry = { url: gone.url, key: gone.key }
  // Until the change is settled, it may be taken back: nobody is told.
  expect(droppedOf(5)).toEqual([entry])
  const signed = { notice: expect.any(String), signature: expect.any(String) }
  expect(droppedOf()).toEqual([{ ...entry, notice: signed }])
  await gone.start()
  // As an enclave does, after its start.
  const enclave = await open()
  expect(await reveal(enclave, nameOf('key'))).toBe(VALUE)
  await until(() => sharesOf(gone).length === 0)
  await remote.reshare()
  expect(droppedOf()).toBeUndefined()
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
    /^it says "the shares of generation 5 expired at /,
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

/** In front of a holder: notes what it is asked, and breaks the connections while it is silent. */
async function standBefore({ url, directory }: Holder) {
  const asked: HolderRequest[] = []
  const state = { isSilent: false }
  const keys = boxKeys(Buffer.from(readKeyFile(join(directory, 'holder.key')), 'hex'))
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    const opened = openHolderRequest(body, keys)
    if (opened !== undefined) asked.push(opened.request)
    if (state.isSilent) return void response.destroy()
    const answer = await fetch(`${url}${request.url}`, { method: 'POST', body })
    response.writeHead(answer.status).end(Buffer.from(await answer.arrayBuffer()))
  })
  await new Promise<void>(done => server.listen(0, '127.0.0.1', done))
  const { port } = server.address() as AddressInfo
  closing.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return { asked, state, url: `http://127.0.0.1:${port}` }
}

test('a dropped holder that does not answer is told that it was dropped, and nothing else', async () => {
  const [first, second, third] = holders
  const watched = await standBefore(third)
  const others = addressesOf([first, second])
  const remote = await open()
  await remote.reshare({ addresses: [...others, { url: watched.url, key: third.key }] })
  watched.state.isSilent = true
  expect((await remote.reshare({ addresses: others })).leftOut).toHaveLength(2)
  watched.asked.splice(0)
  await remote.put({ key: 'merger' }, 'x', { policy: { hosts: ['secret.example'] } })
  await remote.remove({ key: 'merger' })
  for (const use of [() => remote.reshare(), () => remote.rotate()]) await use()
  // Another process, such as an enclave after its start.
  const { length: before } = watched.asked
  expect(await reveal(await open(), nameOf('key'))).toBe(VALUE)
  await until(() => watched.asked.length > before)
  for (const { version: _, replyTo: __, ...request } of watched.asked) {
    const signed = { notice: expect.any(String), signature: expect.stringMatching(/^.{88}$/) }
    expect(request).toEqual({ kind: 'notice', ...signed })
    const [, json = ''] = /^sluice vault notice (.*)$/.exec(String(request.notice)) ?? []
    expect(JSON.parse(json)).toEqual({
      ...{ holder: third.key, generation: 4 },
      sequence: expect.any(Number),
      digest: expect.stringMatching(/^[0-9a-f]{64}$/),
    })
  }
  // It answers at last, and is told no more.
  watched.state.isSilent = false
  expect((await remote.reshare()).leftOut).toEqual([])
  expect(droppedOf()).toBeUndefined()
  expect(sharesOf(third)).toEqual([])
})

/** A holder that was dropped while it was away runs again, and its notice is in the manifest. */
async function dropThird(): Promise<{ readonly remote: Vault; readonly notice: SignedNotice }> {
  const [first, second, third] = holders
  await third.stop()
  const remote = await open()
  await remote.reshare({ addresses: addressesOf([first, second]) })
  await third.start()
  const [entry] = droppedOf() ?? []
  return { remote, notice: entry?.notice as SignedNotice }
}

test('a notice may come again, also after the holder was made one again', async () => {
  const [first, second, third] = holders
  const { remote, notice } = await dropThird()
  const share = join(third.directory, 'shares', '2.json')
  cpSync(share, `${third.directory}.share`)
  expect(sharesOf(third)).toEqual(['2.json'])
  const before = readFileSync(join(third.directory, 'manifest.json'), 'utf8').trimEnd()
  for (let time = 0; time < 2; time++) {
    await sendNotice(third, notice)
    expect(sharesOf(third)).toEqual([])
  }
  expect(statSync(join(third.directory, 'notice.json')).mode & 0o777).toBe(0o600)
  // It ended after it had stored the notice, and before it had deleted the share.
  await third.stop()
  cpSync(`${third.directory}.share`, share)
  await third.start()
  expect(sharesOf(third)).toEqual([])
  // Nor does it use a share that is there all the same.
  cpSync(`${third.directory}.share`, share)
  const { generation, sequence } = JSON.parse(before).body
  const asked = { kind: 'release', sequence, generation, digest: '' }
  const asker = boxKeys(Buffer.from(caller.secretKey, 'hex'))
  const name = nameOf('key')
  const forged = {
    ...{
      ...asked,
      sequence: sequence + 1,
      digest: digestOf(JSON.stringify(JSON.parse(before).body)),
    },
    ...{ name, ciphertext: await remote.ciphertext(name), recipient: boxKeys().publicKey },
  }
  for (const kind of ['release', 'invite', 'deal', 'accept'])
    expect(await failureOf(askHolder(third, asker, { ...forged, kind }))).toMatchObject({
      message: 'it says "the vault has dropped this holder"',
    })
  expect(await failureOf(askHolder(third, asker, asked))).toMatchObject({
    code: 'ROLLBACK',
    message: 'it says "change 5 of the vault was seen, and this is 4"',
  })
  const old = askHolder(third, boxKeys(), { kind: 'manifest', text: before })
  expect(await failureOf(old)).toMatchObject({ code: 'ROLLBACK' })
  expect(await askHolder(third, boxKeys(), { kind: 'status' })).toMatchObject({ isReady: false })
  await sendNotice(third, notice)
  expect(sharesOf(third)).toEqual([])

  // An ordinary resharing makes it a holder again, whatever is repeated in the meantime.
  const addresses = addressesOf([first, second, third])
  await remote.reshare({ addresses })
  expect(sharesOf(third)).toEqual(['4.json'])
  for (const restart of [false, true]) {
    if (restart) {
      await third.stop()
      await third.start()
    }
    await sendNotice(third, notice)
    expect(sharesOf(third)).toEqual(['4.json'])
    expect(await reveal(remote, nameOf('key'), [0, 2])).toBe(VALUE)
  }
  expect(droppedOf()).toBeUndefined()

  // And it may be dropped again.
  await third.stop()
  await remote.reshare({ addresses: addressesOf([first, second]) })
  await third.start()
  const [entry] = droppedOf() ?? []
  await sendNotice(third, notice)
  expect(sharesOf(third)).toEqual(['4.json'])
  await sendNotice(third, entry?.notice as SignedNotice)
  expect(sharesOf(third)).toEqual([])
})

test.each([false, true])(
  'a notice from before a recovery does not delete the share of a recovered generation, if the holder was away: %s',
  async isAway => {
    const [, , third] = holders
    const backup = `${vault.directory}.bak`
    cpSync(vault.directory, backup, { recursive: true })
    const { notice } = await dropThird()
    rmSync(vault.directory, { recursive: true })
    cpSync(backup, vault.directory, { recursive: true })
    if (isAway) await third.stop()
    // The others have deleted their shares of this generation.
    const error = await failureOf((await open()).recover({ after: 10 }))
    expect(error.message).toMatch(/too few holders have a share of its generation 2/)
    if (isAway) {
      await third.start()
      await release(await open(), 2, nameOf('key'))
    }
    await sendNotice(third, notice)
    expect(sharesOf(third)).toEqual(['2.json'])
  },
)

test('a notice of another writer, for another holder or of another form changes nothing', async () => {
  const [first, , third] = holders
  const { notice } = await dropThird()
  const folder = new VaultFolder(vault.directory, createPermissions({}))
  const writer = await readWriter(folder, vault.writerKey)
  const manifest = JSON.parse(manifestText())
  const head = { ...manifest.body, digest: '0'.repeat(64) } as SignedManifest
  const sign = (text: string): SignedNotice => ({ notice: text, signature: writer.sign(text) })
  const fields: Notice = { holder: third.key, generation: 9, sequence: 9, digest: '0'.repeat(64) }
  const prefix = 'sluice vault notice '
  const unsigned = "the notice is not signed by the vault's writer"
  const wrong: [SignedNotice, string][] = [
    [signNotice(third.key, head, createWriter().writer), unsigned],
    [{ ...notice, notice: notice.notice.replace('"generation":3', '"generation":9') }, unsigned],
    [{ ...notice, signature: '' }, unsigned],
    [sign(JSON.stringify(fields)), unsigned],
    [sign(`sluice vault step ${JSON.stringify(fields)}`), unsigned],
    // A manifest is signed with the same key.
    [{ notice: JSON.stringify(manifest.body), signature: manifest.signature }, unsigned],
    [signNotice(first.key, head, writer), 'the notice is for another holder'],
    [sign(prefix), 'the notice is not a JSON object'],
    [
      sign(prefix + JSON.stringify({ ...fields, sequence: 0 })),
      'the notice: sequence must be at least 1',
    ],
    [
      sign(prefix + JSON.stringify({ ...fields, digest: 'x' })),
      'the notice: digest must be 64 lower-case hexadecimal digits',
    ],
  ]
  for (const [sent, message] of wrong) {
    const failure = await failureOf(sendNotice(third, sent))
    expect(failure.message).toContain(message)
    expect(sharesOf(third)).toEqual(['2.json'])
  }
  await sendNotice(third, notice)
  expect(sharesOf(third)).toEqual([])
  // Nor does the holder start with such a file.
  const file = join(third.directory, 'notice.json')
  const text = readFileSync(file, 'utf8')
  await third.stop()
  for (const changed of [text.slice(0, 40), text.replace('sequence', 'sequenze')]) {
    writeFileSync(file, changed, { mode: 0o600 })
    const { message } = await failureOf(startHolder({ directory: third.directory }))
    expect(message).toMatch(/^(notice\.json is not a JSON object|the notice is not signed)/)
  }
  rmSync(file)
})
