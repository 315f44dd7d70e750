import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals'
import { createVault, openVault, type Vault } from '@sluice/confidential-http/vault'
import { until } from '@sluice/test-support/waiting.js'
import { readUse, type SecretUse } from 'sluice/plugins/confidential-http'
import {
  combine,
  createShare,
  encrypt,
  parseCiphertext,
  parseDecryptionShare,
  parsePrivateShare,
} from 'sluice/tdh2'
import { runHere, start as startHere } from './support/cli.js'

const OWNER = 'ab'.repeat(20)
const OTHER = 'cd'.repeat(20)
const VALUE = 'a value that must not be seen'

let parent: string
beforeAll(() => {
  parent = mkdtempSync(join(tmpdir(), 'sluice-vault-'))
})
const home = process.cwd()
afterAll(() => {
  process.chdir(home)
  rmSync(parent, { recursive: true, force: true })
})

let vault: Vault
let count = 0
beforeEach(async () => {
  vault = await createVault(join(parent, `${count++}`, 'vault'), { owner: OWNER })
  process.chdir(join(vault.directory, '..'))
})

/** Starts `sluice vault` in the directory of the vault. */
const start = (args: readonly string[]) => startHere(['vault', ...args])
const run = (
  args: readonly string[],
  input: string | Uint8Array = '',
  env: Record<string, string> = {},
) => runHere(['vault', ...args], { input, env })

/** What is stored of a secret. */
async function readStored(
  key: string,
  namespace = 'main',
  owner = OWNER,
): Promise<{ readonly value: string; readonly use?: SecretUse }> {
  const ciphertext = parseCiphertext(
    vault.publicKey,
    await vault.ciphertext({ owner, namespace, key }),
  )
  const shares = [0, 1].map(function shareOf(index) {
    const file = join(vault.directory, 'shares', '1', `${index}.json`)
    const share = parsePrivateShare(readFileSync(file, 'utf8'))
    return parseDecryptionShare(createShare(ciphertext, share))
  })
  const { value, use } = readUse(await combine(ciphertext, shares, { threshold: 2 }))
  return { value: Buffer.from(value).toString(), ...(use === undefined ? {} : { use }) }
}

describe('sluice vault init', () => {
  test('makes a vault and tells its owner and public key', async () => {
    const { code, out, err } = await run(['init', '--vault', 'new/one'])
    expect([code, err]).toEqual([0, ''])
    const made = await openVault(join(vault.directory, '../new/one'))
    expect(out).toBe(
      [
        'A vault of 3 holders; 2 of them release a secret',
        `directory   ${made.directory}`,
        `owner       0x${made.owner}`,
        `public key  ${made.publicKeyHex}`,
        `writer      ${made.writerKey}`,
        '',
      ].join('\n'),
    )
  })

  test('takes holders, threshold and owner', async () => {
    const args = ['--vault', 'new', '--holders', '5', '--threshold', '3', '--owner', `0x${OTHER}`]
    expect(await run(['init', ...args])).toMatchObject({ code: 0 })
    const made = await openVault(join(vault.directory, '../new'))
    expect([made.holders.length, made.threshold, made.owner]).toEqual([5, 3, OTHER])
    expect(await run(['init', '--vault', 'of-one', '--holders', '1'])).toMatchObject({ code: 0 })
  })

  test('ends with 2 where there is a vault already, and for wrong numbers', async () => {
    expect(await run(['init'])).toEqual({
      code: 2,
      out: '',
      err: `sluice: --vault: ${vault.directory} is a vault already: it has vault.json; name another directory\n`,
    })
    const wrong = await run(['init', '--vault', 'new', '--threshold', '4'])
    expect(wrong).toMatchObject({ code: 2, err: expect.stringMatching(/threshold must be/) })
    expect(await run(['init', '--vault', 'new', '--holders', 'many'])).toMatchObject({ code: 2 })
    expect(readdirSync(join(vault.directory, '..'))).toEqual(['vault'])
  })
})

const readValue = async (...name: Parameters<typeof readStored>): Promise<string> =>
  (await readStored(...name)).value

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
        expect(await run(['put', key, '--anywhere'], input)).toEqual({ code: 0, out: '', err: '' })
        expect(await readValue(key)).toBe(value)
      }),
    )
  })

  test('takes a value from the environment as it is, a namespace and an owner', async () => {
    const where = ['--namespace', 'other', '--owner', `0x${OTHER.toUpperCase()}`]
    const env = { THE_VALUE: `${VALUE}\n` }
    expect(
      await run(['put', 'key', '--anywhere', '--env', 'THE_VALUE', ...where], 'unused', env),
    ).toEqual({
      code: 0,
      out: '',
      err: '',
    })
    expect(await readValue('key', 'other', OTHER)).toBe(`${VALUE}\n`)
  })

  test('keeps an empty value only when it is told to', async () => {
    const refused = { code: 2, err: 'sluice: the value is empty: say --empty if that is meant\n' }
    expect(await run(['put', 'key', '--anywhere'], '\n')).toMatchObject(refused)
    expect(
      await run(['put', 'key', '--anywhere', '--env', 'NONE'], '', { NONE: '' }),
    ).toMatchObject(refused)
    expect(await vault.list()).toEqual([])
    expect(await run(['put', 'key', '--anywhere', '--empty'], '')).toMatchObject({ code: 0 })
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
    ['a key that is none', ['a-b'], VALUE, 2, /^sluice: the key must only hold letters/],
    [
      'an owner that is none',
      ['key', '--owner', 'me'],
      VALUE,
      2,
      /^sluice: --owner must be an address/,
    ],
    ['a directory that is no vault', ['key', '--vault', '.'], VALUE, 2, /is not a vault/],
    ['a value among the arguments', ['key', VALUE], VALUE, 2, /too many arguments/],
  ])('refuses %s, without saying it', async (_name, args, input, expected, message) => {
    const { code, out, err } = await run(['put', '--anywhere', ...args], input)
    expect(err).toMatch(message)
    expect([code, out]).toEqual([expected, ''])
    expect(err).not.toContain(VALUE)
    expect(await vault.list()).toEqual([])
  })

  test.each<[readonly string[], unknown]>([
    [['--host', 'api.example.com'], { hosts: ['api.example.com'] }],
    [
      [
        ...['--host', 'api.example.com', '--host', '.example.com', '--method', 'post'],
        ...['--path', '/v1/Accounts/*', '--in', 'header:Authorization', '--in', 'body'],
        ...['--header', 'X-Trace-Id', '--custom-roots'],
      ],
      {
        hosts: ['api.example.com', '.example.com'],
        methods: ['POST'],
        paths: ['/v1/Accounts/*'],
        in: ['header:authorization', 'body'],
        headers: ['x-trace-id'],
        customRoots: true,
      },
    ],
    [['--anywhere'], 'anywhere'],
  ])('stores with %j the policy that it says', async (args, policy) => {
    expect(await run(['put', 'key', ...args], VALUE)).toEqual({ code: 0, out: '', err: '' })
    expect(await readStored('key')).toEqual({ value: VALUE, use: policy })
    expect(await vault.list()).toMatchObject([{ key: 'key', policy }])
    const listed = await run(['list'])
    expect(listed.out).toMatch(
      policy === 'anywhere' ? /Z {2}anywhere\n$/ : /Z {2}hosts api\.example\.com/,
    )
    if (args.includes('--path'))
      expect(listed.out).toMatch(
        /Z {2}hosts api\.example\.com, \.example\.com {2}methods POST {2}paths \/v1\/Accounts\/\* {2}in header:authorization, body {2}headers x-trace-id {2}custom roots\n$/,
      )
  })

  test('has a secret’s place said, but for that of the key of answers, which goes nowhere', async () => {
    const message = /^sluice: where the secret may go must be said: --host api\.example\.com/
    for (const args of [
      [],
      ['--method', 'GET'],
      ['--path', '/'],
      ['--header', 'x'],
      ['--custom-roots'],
    ]) {
      const { code, err } = await run(['put', 'key', ...args], VALUE)
      expect([code, err]).toEqual([2, expect.stringMatching(message)])
    }
    const both = await run(['put', 'key', '--anywhere', '--host', 'a'], VALUE)
    expect([both.code, both.err]).toEqual([
      2,
      expect.stringContaining("'--anywhere' cannot be used with option '--host <host>'"),
    ])
    for (const [wrong, message] of [
      [['--host', 'https://a'], /--host must be a host/],
      [['--host', '.co.uk'], /--host must not be a public suffix/],
      [['--host', 'a', '--method', 'PSOT'], /--method .* did you mean 'POST'\?/],
      [['--host', 'a', '--path', '/v1/../x'], /--path must be a path/],
    ] as const) {
      const { code, err } = await run(['put', 'key', ...wrong], VALUE)
      expect([code, err]).toEqual([2, expect.stringMatching(message)])
    }
    expect(await vault.list()).toEqual([])
    const key = 'san_marino_aes_gcm_encryption_key'
    expect(await run(['put', key], VALUE)).toMatchObject({ code: 0 })
  })

  test('does not end with 0 when it is interrupted before the value came', async () => {
    const input = new PassThrough()
    const { ended, stop } = startHere(['vault', 'put', 'key', '--anywhere'], { input })
    await until(() => input.listenerCount('readable') > 0)
    stop()
    expect(await ended).toEqual({
      code: 130,
      out: '',
      err: 'sluice: stopped by SIGINT before it was done\n',
    })
    expect(await vault.list()).toEqual([])
  })
})

describe('sluice vault list and rm', () => {
  test('print and forget names, with versions', async () => {
    await vault.put({ key: 'b' }, VALUE, { policy: 'anywhere' })
    await vault.put({ key: 'A', namespace: 'other' }, VALUE, { policy: 'anywhere' })
    await vault.put({ key: 'b', owner: OTHER }, VALUE, { policy: 'anywhere' })
    const listed = await run(['list'])
    expect(listed).toMatchObject({ code: 0, err: '' })
    expect(listed.out.replace(/put \d[^ \n]+/g, 'put TIME')).toBe(
      [`0x${OWNER}  main  b`, `0x${OWNER}  other  A`, `0x${OTHER}  main  b`]
        .map(each => `${each}  version 1  put TIME  anywhere\n`)
        .join(''),
    )
    const json = await run(['list', '--json', '--owner', OTHER, '--namespace', 'main'])
    expect(JSON.parse(json.out)).toEqual({
      ...{ owner: OTHER, namespace: 'main', key: 'b', version: 1 },
      ...{ putAt: expect.any(Number), policy: 'anywhere' },
    })
    expect(await run(['rm', 'b'])).toEqual({ code: 0, out: '', err: '' })
    expect(await run(['rm', 'A', '--namespace', 'other'])).toMatchObject({ code: 0 })
    expect(await vault.list()).toMatchObject([{ owner: OTHER, namespace: 'main', key: 'b' }])
    expect(await run(['rm', 'b'])).toEqual({
      code: 2,
      out: '',
      err: `sluice: the key does not exist: 0x${OWNER}::main::b; sluice vault list shows those that do\n`,
    })
  })
})

describe('sluice vault get, restore, reshare and rotate', () => {
  test('show versions and expiry, and go back to an older one', async () => {
    await vault.put({ key: 'key' }, 'old', { policy: 'anywhere' })
    expect(await run(['put', 'key', '--anywhere', '--expires', '90d'], VALUE)).toMatchObject({
      code: 0,
    })
    const shown = await run(['get', 'key'])
    expect(shown.out.replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')).toBe(
      'version 2  put TIME  expires TIME  anywhere\nversion 1  put TIME  anywhere\n',
    )
    expect(shown.out).not.toContain(VALUE)
    const [newest] = await vault.versions({ key: 'key' })
    expect(Number(newest?.expiresAt) - Date.now()).toBeGreaterThan(89 * 86_400_000)
    expect(await run(['restore', 'key', '1'])).toMatchObject({
      out: 'version 3 has the value of version 1\n',
    })
    expect(await readValue('key')).toBe('old')
    expect(await run(['restore', 'key', '9'])).toMatchObject({
      code: 2,
      err: 'sluice: there is no version 9 of key; sluice vault get shows those that there are\n',
    })
    for (const expires of ['yesterday', '2020-01-01'])
      expect(await run(['put', 'key', '--anywhere', '--expires', expires], VALUE)).toMatchObject({
        code: 2,
      })
  })

  test('change shares and key, and say so', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const reshared = await run(['reshare', '--holders', '4', '--threshold', '2'])
    expect(reshared).toEqual({
      code: 0,
      out: expect.stringMatching(
        /^Generation 2: 4 holders; 2 of them release a secret\npublic key {2}/,
      ),
      err: '',
    })
    rmSync(join(vault.directory, 'shares', '2', '0.json'))
    const rotated = await run(['rotate'])
    expect(rotated.out).toMatch(/^Generation 3: 4 holders; 2 of them release a secret\n/)
    expect(await run(['reshare', '--threshold', '5'])).toMatchObject({ code: 2 })
    expect(await vault.list()).toHaveLength(1)
    expect(vault.generation).toBe(3)
  })

  test('reject a vault that was put back', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    expect(await run(['list', '--rollback-state', 'seen'])).toMatchObject({ code: 0 })
    rmSync(join(vault.directory, 'manifests', '2.json'))
    expect(await run(['list', '--rollback-state', 'seen'])).toEqual({
      code: 1,
      out: '',
      err: `sluice: ${vault.directory} is older than it was: change 2 was seen, and this is 1\n`,
    })
  })
})

describe('sluice vault holder', () => {
  const lineOf = (text: string, name: string) => new RegExp(`^${name}=(.*)$`, 'm').exec(text)?.[1]

  test('runs a holder that has a share after reshare, and says where it is', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
    const trust = ['--writer', vault.writerKey, '--min-threshold', '1']
    const args = ['holder', '--dir', 'holder-0', '--listen', '127.0.0.1:0']
    const { output, ended, shows, stop } = start([...args, ...trust])
    await shows(/HOLDER_KEY=/)
    const [url, key] = ['HOLDER_URL', 'HOLDER_KEY'].map(name => lineOf(output.out, name))
    expect(await run(['reshare', '--threshold', '1', '--holder', `${url}=${key}`])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^Generation 2: 1 holders; 1 of them release a secret\n/),
      err: '',
    })
    expect(readdirSync(join(vault.directory, '../holder-0/shares'))).toEqual(['2.json'])
    expect(readdirSync(join(vault.directory, 'shares'))).toEqual([])
    stop()
    expect(await ended).toMatchObject({ code: 0 })
    // The same line again, as a supervisor starts it: the file may say more by then.
    const again = start([...args, ...trust])
    await again.shows(/HOLDER_KEY=/)
    expect(lineOf(again.output.out, 'HOLDER_KEY')).toBe(key)
    again.stop()
    await again.ended
    // What the file no longer says only warns, by the first digits of each key.
    const others = ['--caller', 'ab'.repeat(32), '--peer', 'cd'.repeat(32), '--min-threshold', '2']
    const outdated = start([...args, '--writer', 'ef'.repeat(32), ...others])
    await outdated.shows(/HOLDER_KEY=/)
    const writer = vault.writerKey.slice(0, 8)
    for (const line of [
      `writer: efefefef… is ignored, and holder.json has ${writer}…`,
      'callers: abababab… is ignored, and holder.json has none',
      'peers: cdcdcdcd… is ignored, and holder.json has none',
      'minThreshold: 2 is ignored, and holder.json has 1',
    ])
      expect(outdated.output.err).toContain(` warn ${line}\n`)
    outdated.stop()
    expect(await outdated.ended).toMatchObject({ code: 0 })
    expect(await run(['holder', '--dir', 'holder-1'])).toMatchObject({ code: 2 })
    expect(await run(['holder', '--dir', 'holder-1', '--listen', 'here'])).toMatchObject({
      code: 2,
    })
    expect(await run(['reshare', '--holder', 'http://127.0.0.1:1'])).toMatchObject({ code: 2 })
  })
})

describe('sluice vault decrypt', () => {
  test('writes what the response says, byte for byte', async () => {
    const body = await encrypt(vault.publicKey, Buffer.from('{"price": 1}\n'))
    expect(await run(['decrypt'], body)).toEqual({ code: 0, out: '{"price": 1}\n', err: '' })
  })

  test('refuses a secret, and what is no response', async () => {
    await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
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
