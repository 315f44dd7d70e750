import { readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { boxKeys, createKeys } from 'sluice/internal'
import { sealRequestJSON } from '../../sealed-message.js'
import { openVault } from '../../vault/open-vault.js'
import { askHolder, type HolderRequest } from '../../vault/process/protocol.js'
import type { Vault } from '../../vault/vault.js'
import {
  addressesOf,
  caller,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolders,
  trust,
} from '../support/vault/holder-processes.js'
import { nameOf, reveal, VALUE, vault } from '../support/vault/vault.js'

let holders: Holder[]
let remote: Vault
beforeEach(async () => {
  await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
  holders = await startHolders(3, vault.writerKey)
  expect(await vault.reshare({ addresses: addressesOf(holders) })).toEqual({
    generation: 2,
    leftOut: [],
  })
  remote = await open()
})

describe('holders that are processes', () => {
  test('hold the shares from a resharing on, and the directory none, and make a new key together', async () => {
    expect(readdirSync(join(vault.directory, 'shares'))).toEqual([])
    expect(holders.map(sharesOf)).toEqual([['2.json'], ['2.json'], ['2.json']])
    for (const pair of [
      [0, 1],
      [1, 2],
    ])
      expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
    await remote.put({ key: 'later' }, 'put later', { policy: 'anywhere' })
    expect(await reveal(remote, nameOf('later'), [2, 0])).toBe('put later')
    await (holders[1] as Holder).stop()
    expect(await failureOf(reveal(remote, nameOf('key'), [0, 1]))).toMatchObject({
      message: 'it could not be reached: ECONNREFUSED',
    })
    await (holders[1] as Holder).start()
    expect(await reveal(remote, nameOf('later'), [0, 1])).toBe('put later')
    // They make a new key together, which encrypts every secret.
    const { publicKeyHex } = remote
    expect(await remote.rotate()).toEqual({ generation: 3, leftOut: [] })
    expect(remote.publicKeyHex).not.toBe(publicKeyHex)
    expect(await reveal(remote, nameOf('key'), [0, 2])).toBe(VALUE)
    expect(holders.map(sharesOf)).toEqual([['3.json'], ['3.json'], ['3.json']])
  })

  test('reshare among themselves and to others, and their old shares go', async () => {
    const others = await startHolders(2, vault.writerKey)
    const [first] = holders as [Holder, ...Holder[]]
    const next = [...others, first]
    const strange = await failureOf(remote.reshare({ addresses: addressesOf(next) }))
    expect(strange.message).toMatch(/^0 of the 2 holders it takes have dealt\n/)
    expect(strange.message).toMatch(
      /holder 0 at \S+: it says "[0-9a-f]{8}\.\.\. is not among the peers of/,
    )
    introduce([...holders, ...others])
    const done = await remote.reshare({ addresses: addressesOf(next), threshold: 3 })
    expect(done).toEqual({ generation: 3, leftOut: [] })
    expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
    expect(holders.map(sharesOf)).toEqual([['3.json'], [], []])
    expect(others.map(sharesOf)).toEqual([['3.json'], ['3.json']])
    for (const { directory } of [...others, first]) trust(directory, { minThreshold: 2 })
    expect(await remote.reshare({ threshold: 2 })).toMatchObject({ generation: 4 })
    expect(await reveal(remote, nameOf('key'), [1, 2])).toBe(VALUE)
  })

  test('reshare without one that is gone, which is named', async () => {
    const [first, second, gone] = holders as [Holder, Holder, Holder]
    await gone.stop()
    const addresses = addressesOf([first, second])
    const { generation, leftOut } = await remote.reshare({ addresses })
    expect(generation).toBe(3)
    expect(leftOut).toEqual([
      `holder 2 at ${gone.url}: it could not be reached: ECONNREFUSED`,
      `the holder at ${gone.url} does not know yet that it was dropped: it could not be reached: ECONNREFUSED`,
    ])
    expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
    expect(await failureOf(remote.reshare({ addresses: addressesOf(holders) }))).toMatchObject({
      message: `the holder at ${gone.url} has not got change 6 yet: it could not be reached: ECONNREFUSED`,
    })
  })

  test('reject an older store, also after a restart', async () => {
    await remote.put({ key: 'key' }, 'new', { policy: 'anywhere' })
    expect(await reveal(remote, nameOf('key'))).toBe('new')
    rmSync(join(vault.directory, 'manifests', '5.json'))
    const older = await open()
    for (const [at, holder] of holders.slice(0, 2).entries()) {
      await holder.stop()
      await holder.start()
      expect(await failureOf(reveal(older, nameOf('key'), [at]))).toMatchObject({
        code: 'ROLLBACK',
        message: 'it says "change 5 of the vault was seen, and this is 4"',
      })
    }
    expect(await failureOf(older.reshare())).toMatchObject({ code: 'ROLLBACK' })
    await older.put({ key: 'other' }, 'another history', { policy: 'anywhere' })
    expect(await failureOf(reveal(older, nameOf('other'), [0]))).toMatchObject({
      code: 'ROLLBACK',
      message: 'it says "the vault has another history than was seen: its change 5 was another"',
    })
  })

  test('answer strangers and nonsense with an error, and release to the callers of their file', async () => {
    const [{ url, key }] = holders as [Holder, ...Holder[]]
    const post = async (path: string, body: string | Uint8Array): Promise<number> => {
      const { status } = await fetch(`${url}${path}`, { method: 'POST', body: body as string })
      return status
    }
    expect((await fetch(`${url}/v1/holder`)).status).toBe(404)
    expect(await post('/v2/holder', 'x')).toBe(404)
    for (const body of ['', 'x', new Uint8Array(200), Buffer.from(key, 'hex')])
      expect(await post('/v1/holder', body)).toBe(400)
    const sealed = (json: string) => sealRequestJSON('N', json, Buffer.from(key, 'hex'), boxKeys())
    for (const json of ['', '[]', '{"version":2}', '{"version":1,"kind":"x","replyTo":"00"}'])
      expect(await post('/v1/holder', sealed(json))).toBe(400)
    const ask = (request: HolderRequest) => failureOf(askHolder({ url, key }, keys, request))
    const keys = boxKeys(Buffer.from(caller.secretKey, 'hex'))
    const { sequence, generation } = await remote.current()
    const { digest } = JSON.parse(
      readFileSync(join(vault.directory, 'manifests', '4.json'), 'utf8'),
    )
    // The writer has not signed it: not being JSON is not noticed.
    const unparsed = '['.repeat(3_000_000)
    const releasing = { kind: 'release', sequence, generation, digest }
    for (const [request, message] of [
      [{ kind: 'toString' }, 'the holder knows no such request'],
      [{ kind: 'manifest' }, 'text must be a string'],
      [{ kind: 'manifest', text: '{}' }, 'the manifest is not a manifest'],
      [{ kind: 'manifest', text: '{"body":{},"signature":"x"}' }, 'the manifest is not a manifest'],
      [
        { kind: 'manifest', text: `{"body":${unparsed},"signature":"${'A'.repeat(86)}=="}` },
        "the manifest is not signed by the vault's writer",
      ],
      [
        { kind: 'deal', order: '{}', signature: '' },
        "the order is not signed by the vault's writer",
      ],
      [releasing, 'the vault has another history than was seen: its change 4 was another'],
    ] as const)
      expect(await ask(request)).toMatchObject({
        name: 'VaultError',
        message: `it says "${message}"`,
      })
    const long = { kind: 'response', body: 'x'.repeat(200_000), sequence, generation }
    expect(await failureOf(askHolder({ url, key }, boxKeys(), long))).toMatchObject({
      message: 'it answered 400',
    })
    expect((await ask(long)).message).not.toBe('it answered 400')
    expect(await ask({ kind: 'manifest', text: 'x'.repeat(5_000_000) })).toMatchObject({
      message: 'it answered 413',
    })
    const other = createKeys().publicKey
    expect(await failureOf(askHolder({ url, key: other }, keys, { kind: 'x' }))).toMatchObject({
      message: 'it answered 400',
    })
    expect(await reveal(remote, nameOf('key'))).toBe(VALUE)
    // The callers of their file may change while they run.
    const stranger = createKeys()
    const strange = await openVault(vault.directory, { callerSecretKey: stranger.secretKey })
    const unknown = { code: 'VAULT', message: 'it says "the holder does not know this caller"' }
    expect(await failureOf(reveal(strange, nameOf('key')))).toMatchObject(unknown)
    expect(await failureOf(reveal(vault, nameOf('key')))).toMatchObject({
      message: expect.stringMatching(/give the secret key that they know this caller by/),
    })
    for (const { directory } of holders) trust(directory, { callers: [stranger.publicKey] })
    expect(await reveal(strange, nameOf('key'))).toBe(VALUE)
    expect(await failureOf(reveal(remote, nameOf('key')))).toMatchObject(unknown)
  })
})
