import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { failureOf } from '@sluice/test-support/waiting.js'
import { createKeys } from 'sluice/internal'
import { ConfidentialHTTPClient, createRemoteRuntime, startEnclaveServer } from '../../index.js'
import { createCallers } from '../../remote/callers.js'
import { createVault } from '../../vault/create-vault.js'

const folder = mkdtempSync(join(tmpdir(), 'sluice-callers-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const [one, other] = [createKeys().publicKey, createKeys().publicKey]
const OWNER = '11'.repeat(20)
const file = join(folder, 'callers.json')
const write = (callers: unknown) =>
  writeFileSync(file, typeof callers === 'string' ? callers : JSON.stringify(callers), {
    mode: 0o600,
  })

describe('a file of callers', () => {
  test('is read again when it has changed: callers come and go while the enclave runs', () => {
    write({ [one]: `0x${OWNER}` })
    const { ownerOf } = createCallers(file)
    expect([ownerOf(one), ownerOf(other)]).toEqual([OWNER, undefined])
    write({ [one]: OWNER, [other]: '22'.repeat(20) })
    expect([ownerOf(one), ownerOf(other)]).toEqual([OWNER, '22'.repeat(20)])
    write({ [other]: OWNER })
    expect([ownerOf(one), ownerOf(other)]).toEqual([undefined, OWNER])
    // Nobody, until somebody is named again.
    write({})
    expect([ownerOf(one), ownerOf(other)]).toEqual([undefined, undefined])
    expect(createCallers(file).ownerOf(one)).toBeUndefined()
    write({ [one]: OWNER })
    expect(ownerOf(one)).toBe(OWNER)
  })

  test('that is spoilt changes nothing, and the log says so', () => {
    write({ [one]: OWNER })
    const errors: string[] = []
    const { ownerOf } = createCallers(file, { log: { error: text => void errors.push(text) } })
    const spoilt: [unknown, string][] = [
      ['{', `${file} is not JSON`],
      ['', `${file} is not JSON`],
      ['null', `${file} must be an object, not null`],
      ['[]', `${file} must be an object, not an array`],
      [{ [one]: 'me' }, `${file}.${one.slice(0, 8)}… must be an address: 40 hexadecimal digits`],
    ]
    for (const [content, why] of spoilt) {
      write(content)
      expect(ownerOf(one)).toBe(OWNER)
      expect(errors.splice(0)).toEqual([`the callers are still those of before: ${why}`])
    }
    rmSync(file)
    expect(ownerOf(one)).toBe(OWNER)
    expect(errors).toEqual([`the callers are still those of before: ${file} can't be read: ENOENT`])
  })

  test('is not read where others may write it, or where there is none', () => {
    expect(() => createCallers(file)).toThrow(`${file} can't be read: ENOENT`)
    write({ [one]: OWNER })
    chmodSync(file, 0o666)
    expect(() => createCallers(file)).toThrow('others may write it')
    chmodSync(file, 0o600)
  })
})

test('an enclave goes by the file of callers without a restart', async () => {
  const vault = await createVault(join(folder, 'vault'), { holders: 1, owner: OWNER })
  const [key, caller] = [createKeys(), createKeys()]
  write({ [one]: OWNER })
  const server = await startEnclaveServer({
    vault: vault.directory,
    secretKey: key.secretKey,
    callers: file,
  })
  const runtime = createRemoteRuntime({
    ...{ url: server.url, enclavePublicKey: server.publicKey, callerSecretKey: caller.secretKey },
  })
  // The policy forbids the target: what counts is whether the enclave gets so far.
  const request = { url: 'https://127.0.0.1:1/', method: 'GET' }
  const send = () => new ConfidentialHTTPClient().sendRequestAsync(runtime, { request })
  try {
    const unknown = { code: 'ENCLAVE', message: expect.stringContaining('does not know this') }
    expect(await failureOf(send())).toMatchObject(unknown)
    write({ [caller.publicKey]: OWNER })
    expect(await send()).toMatchObject({ statusCode: 400 })
    write({ [one]: OWNER })
    expect(await failureOf(send())).toMatchObject(unknown)
  } finally {
    await runtime.close()
    await server.close()
  }
})
