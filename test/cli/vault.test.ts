import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import {
  combine,
  createShare,
  encrypt,
  parseCiphertext,
  parseDecryptionShare,
  parsePrivateShare,
} from '../../crypto/tdh2/index.js'
import { createVault, openVault, type Vault } from '../../local/index.js'
import { startCommand } from '../support/command.js'
import { pause } from '../support/waiting.js'

const OWNER = 'ab'.repeat(20)
const OTHER = 'cd'.repeat(20)
const VALUE = 'a value that must not be seen'

let parent: string
beforeAll(() => {
  parent = mkdtempSync(join(tmpdir(), 'sluice-vault-'))
})
afterAll(() => rmSync(parent, { recursive: true, force: true }))

let vault: Vault
let count = 0
beforeEach(async () => {
  vault = await createVault(join(parent, `${count++}`, 'vault'), { owner: OWNER })
})

/** Starts `sluice vault` in the directory of the vault. */
const start = (
  args: readonly string[],
  input?: string | Uint8Array | null,
  env?: Record<string, string>,
) => startCommand(['vault', ...args], { cwd: join(vault.directory, '..'), input, env })
const run = (args: readonly string[], input?: string | Uint8Array, env?: Record<string, string>) =>
  start(args, input, env).ended

/** The value that is kept. */
async function readValue(key: string, namespace = 'main', owner = OWNER): Promise<string> {
  const ciphertext = parseCiphertext(
    vault.publicKey,
    await vault.ciphertext({ owner, namespace, key }),
  )
  const shares = [0, 1].map(function shareOf(index) {
    const file = join(vault.directory, 'nodes', `${index}.json`)
    const share = parsePrivateShare(readFileSync(file, 'utf8'))
    return parseDecryptionShare(createShare(ciphertext, share))
  })
  return Buffer.from(await combine(ciphertext, shares, { threshold: 2 })).toString()
}

describe('sluice vault init', () => {
  test('makes a vault and tells its owner and public key', async () => {
    const { code, out, err } = await run(['init', '--vault', 'new/one'])
    expect([code, err]).toEqual([0, ''])
    const made = await openVault(join(vault.directory, '../new/one'))
    expect(out).toBe(
      [
        'A vault of 3 nodes; 2 of them release a secret',
        `directory   ${made.directory}`,
        `owner       0x${made.owner}`,
        `public key  ${made.publicKeyHex}`,
        '',
      ].join('\n'),
    )
  })

  test('takes nodes, threshold and owner', async () => {
    const args = ['--vault', 'new', '--nodes', '5', '--threshold', '3', '--owner', `0x${OTHER}`]
    expect(await run(['init', ...args])).toMatchObject({ code: 0 })
    const made = await openVault(join(vault.directory, '../new'))
    expect([made.nodes.length, made.threshold, made.owner]).toEqual([5, 3, OTHER])
    expect(await run(['init', '--vault', 'of-one', '--nodes', '1'])).toMatchObject({ code: 0 })
  })

  test('ends with 1 where there is a vault already, and with 2 for wrong numbers', async () => {
    expect(await run(['init'])).toEqual({
      code: 1,
      out: '',
      err: `sluice: ${vault.directory} is a vault already: it has vault.json\n`,
    })
    const wrong = await run(['init', '--vault', 'new', '--threshold', '4'])
    expect(wrong).toMatchObject({ code: 2, err: expect.stringMatching(/threshold must be/) })
    expect(await run(['init', '--vault', 'new', '--nodes', 'many'])).toMatchObject({ code: 2 })
    expect(readdirSync(join(vault.directory, '..'))).toEqual(['vault'])
  })
})

describe('sluice vault put', () => {
  test('keeps what is on standard input, less one line break, and prints nothing', async () => {
    const inputs = [
      ['plain', VALUE, VALUE],
      ['line', `${VALUE}\n`, VALUE],
      ['dos', `${VALUE}\r\n`, VALUE],
      ['lines', `\n${VALUE}\n\n`, `\n${VALUE}\n`],
      ['letters', 'ключ 🔑\n', 'ключ 🔑'],
    ] as const
    await Promise.all(
      inputs.map(async function putAndCompare([key, input, value]) {
        expect(await run(['put', key], input)).toEqual({ code: 0, out: '', err: '' })
        expect(await readValue(key)).toBe(value)
      }),
    )
  })

  test('takes a value from the environment as it is, a namespace and an owner', async () => {
    const where = ['--namespace', 'other', '--owner', `0x${OTHER.toUpperCase()}`]
    const env = { THE_VALUE: `${VALUE}\n` }
    expect(await run(['put', 'key', '--env', 'THE_VALUE', ...where], 'unused', env)).toEqual({
      code: 0,
      out: '',
      err: '',
    })
    expect(await readValue('key', 'other', OTHER)).toBe(`${VALUE}\n`)
  })

  test('keeps an empty value only when it is told to', async () => {
    const refused = { code: 2, err: 'sluice: the value is empty: say --empty if that is meant\n' }
    expect(await run(['put', 'key'], '\n')).toMatchObject(refused)
    expect(await run(['put', 'key', '--env', 'NONE'], '', { NONE: '' })).toMatchObject(refused)
    expect(await vault.list()).toEqual([])
    expect(await run(['put', 'key', '--empty'], '')).toMatchObject({ code: 0 })
    expect(await readValue('key')).toBe('')
  })

  test.each([
    [
      'a variable that is not set',
      ['key', '--env', 'ABSENT'],
      '',
      2,
      /^sluice: the variable that --env names must be set/,
    ],
    [
      'a value in place of a variable',
      ['key', '--env', VALUE],
      '',
      2,
      /^sluice: the variable that --env names must be set/,
    ],
    ['a value that is too long', ['key'], `${VALUE.repeat(40)}\n`, 2, /1022 bytes, not 1160$/m],
    ['far too long a value', ['key'], VALUE.repeat(9999), 2, /input must have at most 65536 bytes/],
    ['bytes that are no text', ['key'], Uint8Array.of(65, 255), 2, /must be well-formed Unicode/],
    ['a key that is none', ['a-b'], VALUE, 2, /^sluice: key must only hold letters/],
    [
      'an owner that is none',
      ['key', '--owner', 'me'],
      VALUE,
      2,
      /^sluice: owner must be an address/,
    ],
    ['a directory that is no vault', ['key', '--vault', '.'], VALUE, 1, /is not a vault/],
    ['a value among the arguments', ['key', VALUE], VALUE, 2, /too many arguments/],
  ])('refuses %s, without saying it', async (_name, args, input, expected, message) => {
    const { code, out, err } = await run(['put', ...args], input)
    expect(err).toMatch(message)
    expect([code, out]).toEqual([expected, ''])
    expect(err).not.toContain(VALUE)
    expect(await vault.list()).toEqual([])
  })

  test('does not end with 0 when it is interrupted before the value came', async () => {
    const { child, ended } = start(['put', 'key'], null)
    await pause(1500)
    child.kill('SIGINT')
    expect(await ended).toEqual({ code: 1, out: '', err: '' })
    expect(await vault.list()).toEqual([])
  })
})

describe('sluice vault list and rm', () => {
  test('print and forget names', async () => {
    await vault.put({ key: 'b' }, VALUE)
    await vault.put({ key: 'A', namespace: 'other' }, VALUE)
    await vault.put({ key: 'b', owner: OTHER }, VALUE)
    expect(await run(['list'])).toEqual({
      code: 0,
      out: `0x${OWNER}  main  b\n0x${OWNER}  other  A\n0x${OTHER}  main  b\n`,
      err: '',
    })
    const json = await run(['list', '--json', '--owner', OTHER, '--namespace', 'main'])
    expect(json.out).toBe(`{"owner":"${OTHER}","namespace":"main","key":"b"}\n`)
    expect(await run(['rm', 'b'])).toEqual({ code: 0, out: '', err: '' })
    expect(await run(['rm', 'A', '--namespace', 'other'])).toMatchObject({ code: 0 })
    expect(await vault.list()).toEqual([{ owner: OTHER, namespace: 'main', key: 'b' }])
    expect(await run(['rm', 'b'])).toEqual({
      code: 1,
      out: '',
      err: `sluice: key does not exist: 0x${OWNER}::main::b\n`,
    })
  })
})

describe('sluice vault decrypt', () => {
  test('writes what the response says, byte for byte', async () => {
    const body = await encrypt(vault.publicKey, Buffer.from('{"price": 1}\n'))
    expect(await run(['decrypt'], body)).toEqual({ code: 0, out: '{"price": 1}\n', err: '' })
  })

  test('refuses a secret, and what is no response', async () => {
    await vault.put({ key: 'key' }, VALUE)
    const secret = await vault.ciphertext({ owner: OWNER, namespace: 'main', key: 'key' })
    expect(await run(['decrypt'], secret)).toMatchObject({
      code: 1,
      out: '',
      err: expect.stringMatching(/the response has the label of a secret/),
    })
    expect(await run(['decrypt'], VALUE)).toEqual({
      code: 1,
      out: '',
      err: "sluice: the response can't be decrypted: the ciphertext is rejected: it is not JSON\n",
    })
  })
})

test('sluice vault alone ends with 2 and tells its commands', async () => {
  const { code, out, err } = await run([])
  expect(out + err).toMatch(/init .*\n.*put .*\n/)
  expect(code).toBe(2)
})
