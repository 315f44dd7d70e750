import { type ChildProcess, spawn } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeEach, describe, expect, test } from '@jest/globals'
import { boxKeys, openSealed } from '../../crypto/sealed-box.js'
import {
  combine,
  createShare,
  encrypt,
  ownerLabel,
  parseCiphertext,
  parseDecryptionShare,
  parsePrivateShare,
  verifyShare,
} from '../../crypto/tdh2/index.js'
import { createVault, openVault, type Vault } from '../../local/index.js'
import type { SecretName } from '../../local/vault/secret-name.js'
import { isLong, longDescribe } from '../support/long.js'
import { failureOf } from '../support/waiting.js'

const places: string[] = []
function place(): string {
  const directory = mkdtempSync(join(tmpdir(), 'sluice-vault-'))
  places.push(directory)
  return join(directory, 'vault')
}
afterAll(() => {
  for (const directory of places) rmSync(directory, { recursive: true, force: true })
})

const OWNER = '00112233445566778899aabbccddeeff00112233'
const OTHER = 'f'.repeat(40)
const VALUE = 'a value that must not be seen'
const nameOf = (key: string, owner = OWNER, namespace = 'main'): SecretName => ({
  owner,
  namespace,
  key,
})

/** What an enclave does: asks some nodes, verifies, combines. */
async function reveal(vault: Vault, name: SecretName, indexes?: readonly number[]) {
  const keys = boxKeys()
  const ciphertext = parseCiphertext(vault.publicKey, await vault.ciphertext(name))
  const shares = await Promise.all(
    vault.nodes
      .filter(({ index }) =>
        indexes === undefined ? index < vault.threshold : indexes.includes(index),
      )
      .map(async function shareOf(node) {
        const opened = openSealed(await node.release(name, keys.publicKey), keys)
        const share = parseDecryptionShare(Buffer.from(opened as Uint8Array).toString())
        verifyShare(vault.publicKey, ciphertext, share)
        return share
      }),
  )
  const { threshold } = vault
  return Buffer.from(await combine(ciphertext, shares, { threshold })).toString()
}

/** The value that is kept, decrypted without the nodes: tweetnacl is slow in here. */
async function kept(vault: Vault, name: SecretName): Promise<string> {
  const ciphertext = parseCiphertext(vault.publicKey, await vault.ciphertext(name))
  const shares = [0, 1].map(function shareOf(index) {
    const file = join(vault.directory, 'nodes', `${index}.json`)
    const share = parsePrivateShare(readFileSync(file, 'utf8'))
    return parseDecryptionShare(createShare(ciphertext, share))
  })
  return Buffer.from(await combine(ciphertext, shares, { threshold: 2 })).toString()
}

const release = (vault: Vault, index: number, name: SecretName) =>
  vault.nodes[index]?.release(name, boxKeys().publicKey) as Promise<Uint8Array>

/** What is below a folder. (`readdir` is not recursive in Node 20.0.) */
function walk(folder: string, path = ''): string[] {
  return readdirSync(join(folder, path), { withFileTypes: true }).flatMap(entry => {
    const inner = path === '' ? entry.name : `${path}/${entry.name}`
    return entry.isDirectory() ? [inner, ...walk(folder, inner)] : [inner]
  })
}

/** Everything of an error that a log may show. */
const shown = (error: unknown): string =>
  `${inspect(error, { depth: 20, showHidden: true })} ${JSON.stringify(error)} ${String(error)}`

let vault: Vault
beforeEach(async () => {
  vault = await createVault(place(), { owner: OWNER })
})
const at = (...path: readonly string[]): string => join(vault.directory, ...path)
const secretFile = (key = 'key', owner = OWNER): string =>
  at('secrets', owner, 'main', `${key}.json`)
const edit = (path: string, change: (fields: Record<string, unknown>) => object): void =>
  writeFileSync(path, JSON.stringify(change(JSON.parse(readFileSync(path, 'utf8')))))

describe('a vault', () => {
  test.each([
    [1, 1],
    [3, 2],
    [5, 3],
    [5, 5],
  ])('of %i nodes releases a secret by any %i of them', async (nodes, threshold) => {
    const made = await createVault(place(), { nodes, threshold })
    expect(made.nodes.map(node => node.index)).toEqual([...Array(nodes).keys()])
    await made.put({ key: 'key' }, VALUE)
    const name = nameOf('key', made.owner)
    const all = [...Array(nodes).keys()]
    for (const indexes of [all, all.slice(-threshold)])
      expect(await reveal(made, name, indexes)).toBe(VALUE)
    expect(await failureOf(reveal(made, name, all.slice(1, threshold)))).toMatchObject({
      code: 'TDH2',
      message: expect.stringContaining('too few shares'),
    })
  })

  test('has 3 nodes, a threshold of 2 and an owner of its own by default', async () => {
    const [one, other] = [await createVault(place()), await createVault(place())]
    expect([one.nodes.length, one.threshold]).toEqual([3, 2])
    expect(one.owner).toMatch(/^[0-9a-f]{40}$/)
    expect(one.owner).not.toBe(other.owner)
    expect(one.publicKeyHex).not.toBe(other.publicKeyHex)
    expect(JSON.parse(Buffer.from(one.publicKeyHex, 'hex').toString())).toMatchObject({
      Group: 'P256',
      HArray: { length: 3 },
    })
    expect((await createVault(place(), { nodes: 1 })).threshold).toBe(1)
  })

  test('is the same when it is opened again', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const again = await openVault(vault.directory)
    expect(again).toMatchObject({
      directory: vault.directory,
      threshold: 2,
      owner: OWNER,
      publicKeyHex: vault.publicKeyHex,
    })
    expect(await again.list()).toEqual([nameOf('key')])
    expect(await reveal(again, nameOf('key'))).toBe(VALUE)
  })

  test('keeps every kind of text of up to 1022 bytes, and nothing longer', async () => {
    const values = ['', 'a', '\n', '\ufeffmarked', 'ключ 🔑', '\0', 'x'.repeat(1022)]
    for (const value of values) {
      await vault.put({ key: 'text' }, value)
      expect(await kept(vault, nameOf('text'))).toBe(value)
    }
    await vault.put({ key: 'bytes' }, Buffer.from('\ufeffключ'))
    expect(await kept(vault, nameOf('bytes'))).toBe('\ufeffключ')
    expect(Buffer.byteLength(await vault.ciphertext(nameOf('text')))).toBe(1999)
    for (const value of ['x'.repeat(1023), 'é'.repeat(512)])
      expect(await failureOf(vault.put({ key: 'text' }, value))).toMatchObject({
        code: 'VALIDATION',
        message: `the value of text must have at most 1022 bytes, not ${Buffer.byteLength(value)}`,
      })
    expect(await kept(vault, nameOf('text'))).toBe('x'.repeat(1022))
  })

  test.each([
    ['a lone surrogate', 'half \ud83d of it', /well-formed Unicode/],
    ['bytes that are no UTF-8', Uint8Array.of(0x41, 0xff), /well-formed Unicode/],
    ['a number', 12, /must be a string or a Uint8Array/],
    ['nothing', undefined, /must be a string or a Uint8Array/],
  ])('refuses %s as a value', async (_name, value, message) => {
    const error = await failureOf(vault.put({ key: 'key' }, value as string))
    expect(error).toMatchObject({ code: 'VALIDATION', message: expect.stringMatching(message) })
    expect(await vault.list()).toEqual([])
  })

  test('takes the value as it was when it was put', async () => {
    const value = Buffer.from('before')
    const done = vault.put({ key: 'key' }, value)
    value.write('after!')
    await done
    expect(await kept(vault, nameOf('key'))).toBe('before')
  })

  test('replaces, lists and forgets', async () => {
    await vault.put({ key: 'key' }, 'old')
    await vault.put({ key: 'key', namespace: 'main', owner: `0x${OWNER.toUpperCase()}` }, 'new')
    await vault.put({ key: 'key', namespace: 'other' }, 'elsewhere')
    await vault.put({ key: 'Key', namespace: '' }, 'of another case')
    await vault.put({ key: 'key', owner: OTHER }, 'theirs')
    const mine = [nameOf('Key'), nameOf('key'), nameOf('key', OWNER, 'other')]
    expect(await vault.list()).toEqual([...mine, nameOf('key', OTHER)])
    expect(await vault.list({ owner: `0x${OWNER}` })).toEqual(mine)
    expect(await vault.list({ namespace: '' })).toHaveLength(3)
    expect(await vault.list({ owner: OWNER, namespace: 'other' })).toEqual([mine[2]])
    expect(await kept(vault, nameOf('key'))).toBe('new')
    expect(await kept(vault, nameOf('Key'))).toBe('of another case')
    expect(await kept(vault, nameOf('key', OTHER))).toBe('theirs')
    await vault.remove({ key: 'key' })
    expect(await vault.list({ owner: OWNER })).toEqual([mine[0], mine[2]])
    for (const gone of [
      vault.remove({ key: 'key' }),
      vault.ciphertext(nameOf('key')),
      release(vault, 0, nameOf('key')),
    ])
      expect(await failureOf(gone)).toMatchObject({
        code: 'VAULT',
        message: `key does not exist: 0x${OWNER}::main::key`,
      })
  })

  test('keeps 100 secrets of an owner, over all namespaces, and not one more', async () => {
    const puts = Array.from({ length: 101 }, (_, i) =>
      vault.put({ key: `key${i}`, namespace: `n${i % 3}` }, ''),
    )
    const settled = await Promise.allSettled(puts)
    expect(settled.filter(each => each.status === 'rejected')).toEqual([
      {
        status: 'rejected',
        reason: expect.objectContaining({
          code: 'VALIDATION',
          message: `owner 0x${OWNER} has 100 secrets already, which is all an owner may have`,
        }),
      },
    ])
    const [some] = await vault.list()
    expect(await vault.list()).toHaveLength(100)
    await vault.put(some as SecretName, 'replaced')
    await vault.put({ key: 'key', owner: OTHER }, 'of another owner')
    await vault.remove(some as SecretName)
    await vault.put({ key: 'instead' }, '')
    expect(await vault.list({ owner: OWNER })).toHaveLength(100)
  })

  test.each([
    ['an empty key', { key: '' }, /^key must be a string that is not empty$/],
    ['a missing key', {}, /^key must be a string that is not empty$/],
    ['a key with a dash', { key: 'a-b' }, /^key must only hold letters of ASCII, digits and _$/],
    ['a way out', { key: '../../vault' }, /^key must only hold/],
    ['a key with a line break', { key: 'a\n' }, /^key must only hold/],
    ['a key beyond ASCII', { key: 'ключ' }, /^key must only hold/],
    ['a key of 65 bytes', { key: 'k'.repeat(65) }, /^key must have at most 64 bytes, not 65$/],
    ['a namespace with a slash', { key: 'a', namespace: 'a/b' }, /^namespace must only hold/],
    ['a namespace of 65', { key: 'a', namespace: 'n'.repeat(65) }, /^namespace must have at most/],
    ['an owner that is no address', { key: 'a', owner: 'me' }, /^owner must be an address: 40 hex/],
    ['an empty owner', { key: 'a', owner: '' }, /^owner must be an address/],
    ['the zero address', { key: 'a', owner: `0x${'0'.repeat(40)}` }, /^owner must not be the zero/],
    ['no name', null, /^name must be an object/],
  ])('refuses %s', async (_name, name, message) => {
    for (const refused of [
      vault.put(name as { key: string }, VALUE),
      vault.remove(name as { key: string }),
    ])
      expect(await failureOf(refused)).toMatchObject({
        code: 'VALIDATION',
        message: expect.stringMatching(message),
      })
    expect(existsSync(at('secrets'))).toBe(false)
  })

  test('takes names of 64 bytes in any letters, even those that systems keep for themselves', async () => {
    const keys = ['K'.repeat(64), '_', '0', 'NUL', 'nul', 'com1', 'Con']
    for (const key of keys) await vault.put({ key, namespace: key }, key)
    for (const key of keys) expect(await kept(vault, nameOf(key, OWNER, key))).toBe(key)
    const folders = readdirSync(at('secrets', OWNER))
    expect(new Set(folders.map(folder => folder.toLowerCase())).size).toBe(keys.length)
    expect(folders).toEqual(expect.arrayContaining(['nul-', '-n-u-l', 'com1-', '-con']))
  })

  test('tells what it wants of a new vault', async () => {
    const options = [
      [{ nodes: 0 }, 'nodes must be a whole number of 1 to 31, not 0'],
      [{ nodes: 32 }, 'nodes must be a whole number of 1 to 31, not 32'],
      [{ nodes: 2.5 }, 'nodes must be a whole number of 1 to 31, not 2.5'],
      [{ threshold: 4 }, 'threshold must be a whole number of 1 to 3, not 4'],
      [{ nodes: 5, threshold: 0 }, 'threshold must be a whole number of 1 to 5, not 0'],
      [{ owner: 'me' }, 'owner must be an address: 40 hexadecimal digits'],
      [null, 'options must be an object'],
    ] as const
    const directory = place()
    for (const [wrong, message] of options)
      expect(await failureOf(createVault(directory, wrong as object))).toMatchObject({
        code: 'VALIDATION',
        message,
      })
    expect(existsSync(directory)).toBe(false)
    for (const open of [createVault, openVault])
      expect(await failureOf(open(''))).toMatchObject({ message: 'directory must be a path' })
  })

  test('is made only where there is none', async () => {
    const before = readFileSync(at('nodes', '0.json'), 'utf8')
    expect(await failureOf(createVault(vault.directory))).toMatchObject({
      code: 'VAULT',
      message: `${vault.directory} is a vault already: it has vault.json`,
    })
    rmSync(at('vault.json'))
    expect(await failureOf(createVault(vault.directory))).toMatchObject({
      code: 'VAULT',
      message: expect.stringMatching(/has nodes but no vault\.json/),
    })
    expect(readFileSync(at('nodes', '0.json'), 'utf8')).toBe(before)
    const directory = place()
    const made = await Promise.allSettled([1, 2, 3].map(() => createVault(directory)))
    expect(made.filter(each => each.status === 'fulfilled')).toHaveLength(1)
    await (await openVault(directory)).put({ key: 'key' }, VALUE)
    writeFileSync(`${directory}.file`, '')
    expect(await failureOf(createVault(`${directory}.file`))).toMatchObject({ code: 'VAULT' })
  })

  test('can be made where there are other things', async () => {
    const directory = place()
    mkdirSync(directory)
    writeFileSync(join(directory, 'README'), 'mine')
    await createVault(directory)
    expect(readdirSync(directory).sort()).toEqual(['README', 'nodes', 'vault.json'])
  })

  test('lets nobody else read its files, and leaves no drafts', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const entries = walk(vault.directory)
    expect([...entries].sort()).toEqual([
      'nodes',
      'nodes/0.json',
      'nodes/1.json',
      'nodes/2.json',
      'secrets',
      `secrets/${OWNER}`,
      `secrets/${OWNER}/main`,
      `secrets/${OWNER}/main/key.json`,
      'vault.json',
    ])
    for (const entry of ['.', ...entries]) {
      const stats = statSync(at(entry))
      expect([entry, stats.mode & 0o777]).toEqual([entry, stats.isFile() ? 0o600 : 0o700])
    }
  })
})

describe('a node', () => {
  const broken: [string, () => void, RegExp][] = [
    ['is missing', () => rmSync(at('nodes', '1.json')), /^nodes\/1\.json is missing$/],
    [
      'is empty',
      () => writeFileSync(at('nodes', '1.json'), ''),
      /^nodes\/1\.json is not a JSON object$/,
    ],
    [
      'lacks quotes',
      () => {
        const text = readFileSync(at('nodes', '1.json'), 'utf8')
        writeFileSync(at('nodes', '1.json'), text.replace('"V":"', '"V":?'))
      },
      /^nodes\/1\.json is not a JSON object$/,
    ],
    [
      'is too long',
      () => writeFileSync(at('nodes', '1.json'), `{${' '.repeat(1100)}}`),
      /^nodes\/1\.json has more than 1024 bytes$/,
    ],
    [
      'is a folder',
      () => {
        rmSync(at('nodes', '1.json'))
        mkdirSync(at('nodes', '1.json'))
      },
      /^nodes\/1\.json (is not a file|can't be read: E\w+)$/,
    ],
    [
      'has no scalar',
      () => edit(at('nodes', '1.json'), fields => ({ ...fields, V: 'AAAA' })),
      /^nodes\/1\.json is not a private share$/,
    ],
    [
      'has another scalar',
      () =>
        edit(at('nodes', '1.json'), fields => ({
          ...fields,
          V: Buffer.alloc(32, 7).toString('base64'),
        })),
      /^nodes\/1\.json is not the share of this vault's node 1$/,
    ],
    [
      'is that of another node',
      () => cpSync(at('nodes', '0.json'), at('nodes', '1.json')),
      /^nodes\/1\.json is the share of node 0$/,
    ],
    [
      'is that of another node in disguise',
      () => {
        cpSync(at('nodes', '0.json'), at('nodes', '1.json'))
        edit(at('nodes', '1.json'), fields => ({ ...fields, Index: 1 }))
      },
      /^nodes\/1\.json is not the share of this vault's node 1$/,
    ],
  ]

  test.each(isLong ? broken : broken.slice(-2))(
    'fails when its share %s, and the others do not',
    async (_name, spoil, message) => {
      await vault.put({ key: 'key' }, VALUE)
      const { V: share } = JSON.parse(readFileSync(at('nodes', '1.json'), 'utf8'))
      spoil()
      const again = await openVault(vault.directory)
      for (const opened of [vault, again]) {
        const error = await failureOf(release(opened, 1, nameOf('key')))
        expect(error).toMatchObject({ code: 'VAULT', message: expect.stringMatching(message) })
        // What JSON.parse throws quotes a few characters.
        const text = shown(error)
        for (let from = 0; from + 6 <= share.length; from++)
          expect(text.includes(share.slice(from, from + 6))).toBe(false)
        expect(await reveal(opened, nameOf('key'), [0, 2])).toBe(VALUE)
      }
      const response = await encrypt(vault.publicKey, Buffer.from('response'))
      expect(Buffer.from(await again.decryptResponse(response)).toString()).toBe('response')
    },
  )

  test('fails when its share is of another vault', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const other = await createVault(place())
    cpSync(join(other.directory, 'nodes', '1.json'), at('nodes', '1.json'))
    expect(await failureOf(release(vault, 1, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: "nodes/1.json is not the share of this vault's node 1",
    })
  })

  test('fails when its share has changed places with another', async () => {
    await vault.put({ key: 'key' }, VALUE)
    renameSync(at('nodes', '0.json'), at('kept'))
    renameSync(at('nodes', '2.json'), at('nodes', '0.json'))
    renameSync(at('kept'), at('nodes', '2.json'))
    for (const [index, holder] of [
      [0, 2],
      [2, 0],
    ] as const)
      expect(await failureOf(release(vault, index, nameOf('key')))).toMatchObject({
        message: `nodes/${index}.json is the share of node ${holder}`,
      })
  })

  test('refuses a ciphertext that was copied to another owner', async () => {
    await vault.put({ key: 'key' }, VALUE)
    mkdirSync(at('secrets', OTHER, 'main'), { recursive: true })
    cpSync(secretFile('key'), secretFile('key', OTHER))
    const error = await failureOf(release(vault, 0, nameOf('key', OTHER)))
    expect(error.message).toBe(
      `secrets/${OTHER}/main/key.json is not the file of the secret it names`,
    )
    edit(secretFile('key', OTHER), fields => ({ ...fields, owner: OTHER }))
    expect(await vault.list({ owner: OTHER })).toEqual([nameOf('key', OTHER)])
    for (const index of [0, 1, 2])
      expect(await failureOf(release(vault, index, nameOf('key', OTHER)))).toMatchObject({
        code: 'VAULT',
        message: `0x${OTHER}::main::key was encrypted for another owner`,
      })
  })

  test('refuses a response in the place of a secret', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const ciphertext = await encrypt(vault.publicKey, Buffer.from('response'))
    edit(secretFile(), fields => ({ ...fields, ciphertext }))
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: expect.stringContaining('was encrypted for another owner'),
    })
  })

  test('refuses a ciphertext whose label was changed', async () => {
    await vault.put({ key: 'key' }, VALUE)
    edit(secretFile(), fields => {
      const outer = JSON.parse(fields.ciphertext as string)
      const inner = JSON.parse(Buffer.from(outer.TDH2Ctxt, 'base64').toString())
      inner.Label = Buffer.from(ownerLabel(OTHER)).toString('base64')
      outer.TDH2Ctxt = Buffer.from(JSON.stringify(inner)).toString('base64')
      return { ...fields, ciphertext: JSON.stringify(outer) }
    })
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: `0x${OWNER}::main::key: the TDH2 ciphertext is refused: E: wrong e`,
      cause: expect.objectContaining({ code: 'TDH2' }),
    })
  })

  test.each([
    ['is not JSON', () => writeFileSync(secretFile(), 'no'), /is not a JSON object$/],
    ['is a list', () => writeFileSync(secretFile(), '[]'), /is not a JSON object$/],
    [
      'is too long',
      () => writeFileSync(secretFile(), ' '.repeat(9000)),
      /has more than 8192 bytes$/,
    ],
    [
      'has no ciphertext',
      () => edit(secretFile(), ({ ciphertext, ...fields }) => fields),
      /key\.json has no ciphertext$/,
    ],
    [
      'has a ciphertext that is too long',
      () => edit(secretFile(), fields => ({ ...fields, ciphertext: 'x'.repeat(2001) })),
      /key\.json: ciphertext has more than 2000 bytes$/,
    ],
    [
      'has a ciphertext that is none',
      () => edit(secretFile(), fields => ({ ...fields, ciphertext: '{}' })),
      /::main::key: the ciphertext is refused/,
    ],
    [
      'names another key',
      () => edit(secretFile(), fields => ({ ...fields, key: 'other' })),
      /key\.json is not the file of the secret it names$/,
    ],
    [
      'names none',
      () => edit(secretFile(), fields => ({ ...fields, key: '../key' })),
      /key\.json is not the file of the secret it names$/,
    ],
  ])('refuses a secret whose file %s', async (_name, spoil, message) => {
    await vault.put({ key: 'key' }, 'old')
    spoil()
    expect(await failureOf(release(vault, 0, nameOf('key')))).toMatchObject({
      code: 'VAULT',
      message: expect.stringMatching(message),
    })
    await vault.put({ key: 'key' }, 'new')
    expect(await kept(vault, nameOf('key'))).toBe('new')
  })

  test('checks name and recipient', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const [node] = vault.nodes
    for (const recipient of [new Uint8Array(31), new Uint8Array(33), 'x'.repeat(32), undefined])
      expect(
        await failureOf(node?.release(nameOf('key'), recipient as Uint8Array) as Promise<unknown>),
      ).toMatchObject({
        code: 'VALIDATION',
        message: 'recipient must be a Uint8Array of 32 bytes',
      })
    expect(await failureOf(release(vault, 0, { key: 'key' } as SecretName))).toMatchObject({
      message: 'owner must be an address: 40 hexadecimal digits',
    })
  })

  test('seals its share to the recipient alone, differently each time', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const [keys, others] = [boxKeys(), boxKeys()]
    const [one, two] = await Promise.all([
      vault.nodes[0]?.release(nameOf('key'), keys.publicKey),
      vault.nodes[0]?.release(nameOf('key'), keys.publicKey),
    ])
    expect(openSealed(one as Uint8Array, others)).toBeUndefined()
    const texts = [one, two].map(each =>
      Buffer.from(openSealed(each as Uint8Array, keys) as Uint8Array).toString(),
    )
    expect(texts[0]).toMatch(/^\{"Group":"P256","Index":0,"U_i":"/)
    expect(texts[0]).not.toBe(texts[1])
  })
})

describe('a response', () => {
  const response = (value: string, label?: Uint8Array) =>
    encrypt(vault.publicKey, Buffer.from(value), label === undefined ? {} : { label })

  test('is decrypted by the quorum, as text and as bytes', async () => {
    for (const value of ['', 'body', 'x'.repeat(500_000)]) {
      const body = await response(value)
      for (const given of [body, Buffer.from(body), new Uint8Array(Buffer.from(body))])
        expect(Buffer.from(await vault.decryptResponse(given)).toString()).toBe(value)
    }
  })

  test('is not decrypted when it is a secret of anybody', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const bodies = [
      await vault.ciphertext(nameOf('key')),
      await response(VALUE, ownerLabel(OTHER)),
      await response(VALUE, new Uint8Array(32).fill(1, 0, 1)),
    ]
    for (const body of bodies)
      expect(await failureOf(vault.decryptResponse(body))).toMatchObject({
        code: 'VAULT',
        message: '0 of the 2 nodes needed gave a share: the response has the label of a secret',
      })
  })

  test('is not decrypted when too few nodes give a share', async () => {
    rmSync(at('nodes', '0.json'))
    cpSync(at('nodes', '1.json'), at('nodes', '2.json'))
    expect(await failureOf(vault.decryptResponse(await response(VALUE)))).toMatchObject({
      code: 'VAULT',
      message:
        '1 of the 2 nodes needed gave a share: nodes/0.json is missing; nodes/2.json is the share of node 1',
    })
  })

  test('is not decrypted when it was changed, or is none, or of another vault', async () => {
    const body = await response(VALUE)
    const outer = JSON.parse(body)
    const changed = (field: string): string => {
      const bytes = Buffer.from(outer[field], 'base64')
      bytes[5] = (bytes[5] as number) ^ 1
      return JSON.stringify({ ...outer, [field]: bytes.toString('base64') })
    }
    const other = await createVault(place())
    for (const wrong of [
      '',
      'plain text',
      '{}',
      '\ud83d',
      body.slice(1),
      changed('SymCtxt'),
      changed('Nonce'),
      changed('TDH2Ctxt'),
      await encrypt(other.publicKey, Buffer.from(VALUE)),
    ]) {
      const error = await failureOf(vault.decryptResponse(wrong))
      expect(error).toMatchObject({
        code: 'VAULT',
        message: expect.stringMatching(/^the response can't be decrypted: /),
        cause: expect.objectContaining({ code: 'TDH2' }),
      })
      expect(shown(error)).not.toContain(VALUE)
    }
    expect(await failureOf(vault.decryptResponse(12 as unknown as string))).toMatchObject({
      code: 'VALIDATION',
    })
  })
})

describe('opening', () => {
  const spoil = (change: (fields: Record<string, unknown>) => object) => () =>
    edit(at('vault.json'), change)
  test.each([
    ['no manifest', () => rmSync(at('vault.json')), /is not a vault: it has no vault\.json$/],
    ['half a manifest', () => writeFileSync(at('vault.json'), '{"v'), /is not a JSON object$/],
    [
      'too long a manifest',
      () => writeFileSync(at('vault.json'), ' '.repeat(70_000)),
      /^vault\.json has more than 65536 bytes$/,
    ],
    ['another version', spoil(all => ({ ...all, version: 2 })), /^vault\.json: its version is not/],
    ['a threshold of 0', spoil(all => ({ ...all, threshold: 0 })), /threshold is not a whole/],
    ['a threshold above', spoil(all => ({ ...all, threshold: 4 })), /a whole number of 1 to 3$/],
    ['a threshold as text', spoil(all => ({ ...all, threshold: '2' })), /threshold is not/],
    ['another number of nodes', spoil(all => ({ ...all, nodes: 2 })), /nodes is not the number/],
    ['no owner', spoil(({ owner, ...all }) => all), /^vault\.json: owner must be an address/],
    ['no key', spoil(({ publicKey, ...all }) => all), /publicKey is not lower-case hex/],
    ['no point', spoil(all => ({ ...all, publicKey: '7b7d' })), /publicKey is none: the public/],
  ])('refuses %s', async (_name, change, message) => {
    change()
    expect(await failureOf(openVault(vault.directory))).toMatchObject({
      code: 'VAULT',
      message: expect.stringMatching(message),
    })
  })

  test('refuses what is not there', async () => {
    expect(await failureOf(openVault(place()))).toMatchObject({ code: 'VAULT' })
    expect(await failureOf(openVault(at('vault.json')))).toMatchObject({ code: 'VAULT' })
  })

  test('gives an absolute directory', async () => {
    expect(vault.directory).toBe(resolve(vault.directory))
  })
})

describe('what must not be seen', () => {
  test('is neither in the vault nor in the directory, in any form', async () => {
    await vault.put({ key: 'key' }, VALUE)
    await kept(vault, nameOf('key'))
    const shares = [0, 1, 2].map(
      index => JSON.parse(readFileSync(at('nodes', `${index}.json`), 'utf8')).V,
    )
    const scalars = shares.map(each => BigInt(`0x${Buffer.from(each, 'base64').toString('hex')}`))
    // The master secret, from the shares of the nodes 0 and 1: 2 f(1) - f(2).
    const order = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n
    const [one = 0n, two = 0n] = scalars
    const master = (((2n * one - two) % order) + order) % order
    const forms = (scalar: bigint) => {
      const hex = scalar.toString(16).padStart(64, '0')
      return [hex, `${scalar}`, Buffer.from(hex, 'hex').toString('base64')]
    }
    const seen = [vault, vault.nodes, vault.publicKey]
      .map(each => inspect(each, { depth: 20, showHidden: true, getters: true }))
      .join()
    for (const secret of [VALUE, ...scalars.flatMap(forms), ...forms(master)])
      expect(seen).not.toContain(secret)
    const files = walk(vault.directory)
      .filter(entry => entry.endsWith('.json'))
      .map(entry => readFileSync(at(entry), 'utf8'))
    expect(files).toHaveLength(5)
    for (const secret of [VALUE, Buffer.from(VALUE).toString('base64'), ...forms(master)])
      expect(files.join()).not.toContain(secret)
  })

  test('is in no error', async () => {
    const value = `${VALUE} `.repeat(40)
    const errors = [
      await failureOf(vault.put({ key: 'key' }, value)),
      await failureOf(vault.put({ key: 'key' }, Buffer.from(value))),
      await failureOf(vault.put({ key: 'key' }, `${VALUE}\ud83d`)),
      await failureOf(vault.put({ key: '-' }, VALUE)),
    ]
    writeFileSync(at('secrets'), '')
    errors.push(await failureOf(vault.put({ key: 'key' }, VALUE)))
    expect(errors.map(error => error.code)).toEqual([...Array(4).fill('VALIDATION'), 'VAULT'])
    for (const error of errors) expect(shown(error)).not.toContain(VALUE)
  })
})

longDescribe('several processes', () => {
  const library = join(__dirname, '../../dist/cjs/local/index.js')
  const children = new Set<ChildProcess>()
  afterEach(() => {
    for (const each of children) each.kill('SIGKILL')
    children.clear()
  })
  const child = (program: string) => {
    const source = `const { openVault } = require(${JSON.stringify(library)});
      (async () => { const vault = await openVault(${JSON.stringify(vault.directory)}); ${program} })()
        .catch(error => { console.error(error); process.exitCode = 1 })`
    const running = spawn(process.execPath, ['-e', source], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.add(running)
    const ended = new Promise<number | null>(resolve => running.once('close', resolve))
    const started = new Promise<void>(resolve => running.stdout.once('data', () => resolve()))
    return { running, ended, started }
  }

  test('put at once, and every secret is whole', async () => {
    const putting = [0, 1, 2, 3].map(i =>
      child(`for (let j = 0; j < 5; j++) {
        await vault.put({ key: 'shared' }, 'shared by ${i}')
        await vault.put({ key: 'own_${i}_' + j }, 'own ${i} ' + j)
      }`),
    )
    expect(await Promise.all(putting.map(each => each.ended))).toEqual([0, 0, 0, 0])
    const names = await vault.list()
    expect(names).toHaveLength(21)
    for (const name of names) {
      const value = await kept(vault, name)
      if (name.key === 'shared') expect(value).toMatch(/^shared by \d$/)
      else expect(value).toBe(name.key.replaceAll('_', ' '))
    }
  })

  test('are killed while they put, and the secret is the old one or the new one', async () => {
    const [old, fresh] = ['old '.repeat(250), 'new '.repeat(250)]
    await vault.put({ key: 'key' }, old)
    for (let round = 0; round < 8; round++) {
      const { running, ended, started } = child(`
        for (let i = 0; ; i++) {
          await vault.put({ key: 'key' }, (i % 2 ? 'old ' : 'new ').repeat(250))
          if (i === 0) process.stdout.write('started')
        }`)
      await started
      // Whoever reads meanwhile sees no half of a file either.
      const end = performance.now() + Math.random() * 60
      while (performance.now() < end)
        expect(JSON.parse(readFileSync(secretFile(), 'utf8'))).toMatchObject({ key: 'key' })
      running.kill('SIGKILL')
      await ended
      const value = await kept(vault, nameOf('key'))
      expect([old, fresh]).toContain(value)
      expect(await vault.list()).toEqual([nameOf('key')])
    }
    await vault.put({ key: 'key' }, 'after')
    expect(await kept(vault, nameOf('key'))).toBe('after')
  })
})
