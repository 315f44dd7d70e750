import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { ConfidentialHTTPClient, createRemoteRuntime, json } from '@sluice/confidential-http'
import { createVault, type Vault } from '@sluice/confidential-http/vault'
import { startHTTPSServer } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { runHere } from './support/cli.js'

const SECRET = 'a-secret-of-the-enclave'

const home = process.cwd()
let folder: string
let vault: Vault
beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-enclave-'))
  process.chdir(folder)
  vault = await createVault(join(folder, 'vault'))
  await vault.put({ key: 'token' }, SECRET, { policy: 'anywhere' })
  const policy = { hosts: ['localhost', '127.0.0.1'], methods: ['GET'], customRoots: true }
  await vault.put({ key: 'limited' }, SECRET, { policy })
})
afterAll(() => {
  process.chdir(home)
  rmSync(folder, { recursive: true, force: true })
})

const run = (args: readonly string[]) => runHere(args)

describe('sluice keygen', () => {
  test('writes a key that only its owner can read, prints the public half, and overwrites nothing', async () => {
    const { code, out, err } = await run(['keygen', 'once.key'])
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(/^[0-9a-f]{64}\n$/)
    const written = readFileSync(join(folder, 'once.key'), 'utf8')
    expect(written).toMatch(/^[0-9a-f]{64}\n$/)
    expect(written).not.toBe(out)
    expect(statSync(join(folder, 'once.key')).mode & 0o777).toBe(0o600)
    const again = await run(['keygen', 'once.key'])
    expect(again.code).toBe(2)
    expect(again.err).toMatch(/once\.key exists, and a key is never overwritten: name another file/)
    expect(readFileSync(join(folder, 'once.key'), 'utf8')).toBe(written)
  })
})

describe('sluice enclave', () => {
  test('serves the callers it knows until it is interrupted, and logs no secret', async () => {
    const enclavePublicKey = (await run(['keygen', 'enclave.key'])).out.trim()
    const callerPublicKey = (await run(['keygen', 'caller.key'])).out.trim()
    const api = await startHTTPSServer({
      handler: ({ headers }, response) =>
        void response.end(JSON.stringify({ right: headers.authorization === SECRET })),
    })
    const { child, output, ended, shows } = startCommand(
      [
        ...['enclave', '--key', 'enclave.key', '--caller', callerPublicKey],
        ...['--port', '0', '--loopback', '--policy-headers', 'warn'],
      ],
      { cwd: folder, input: null },
    )
    await shows(/ENCLAVE_PUBLIC_KEY=/)
    const [, url = ''] = /ENCLAVE_URL=(.*)/.exec(output.out) ?? []
    expect(output.out).toContain(`ENCLAVE_PUBLIC_KEY=${enclavePublicKey}\n`)
    // It says what its layout is worth.
    for (const weakness of [
      'all shares of the vault',
      'writer.json',
      '--require-policies',
      '--rollback-state',
    ])
      expect(output.err).toContain(weakness)

    const runtime = createRemoteRuntime({
      url,
      enclavePublicKey,
      callerSecretKey: readFileSync(join(folder, 'caller.key'), 'utf8').trim(),
    })
    const response = await new ConfidentialHTTPClient().sendRequestAsync(runtime, {
      vaultDonSecrets: [{ key: 'token' }],
      request: {
        url: api.url,
        method: 'GET',
        multiHeaders: { Authorization: { values: ['{{.token}}'] } },
        customRootCaCertPem: api.ca,
      },
    })
    expect(json(response)).toEqual({ right: true })
    const beside = await new ConfidentialHTTPClient().sendRequestAsync(runtime, {
      vaultDonSecrets: [{ key: 'limited' }],
      request: {
        url: api.url,
        method: 'GET',
        multiHeaders: { Authorization: { values: ['{{.limited}}'] }, 'X-Any': { values: ['1'] } },
        customRootCaCertPem: api.ca,
      },
    })
    expect(json(beside)).toEqual({ right: true })
    await shows(/warn .*secret limited has a policy that does not name the header x-any/)
    await runtime.close()
    await api.close()
    // Node's own answer to it is an inspector, in which all of the process can be read.
    child.kill('SIGUSR1')
    await shows(/SIGUSR1 is ignored|Debugger listening/)
    expect(output.err).not.toContain('Debugger listening')
    child.kill('SIGINT')
    expect((await ended).code).toBe(0)
    expect(output.err).toMatch(/info .*200/)
    expect(output.out + output.err).not.toContain(SECRET)
  }, 60_000)

  test.each<[string, readonly string[], RegExp]>([
    ['no caller', [], /either --caller or --callers must be given/],
    [
      'callers in two ways',
      ['--caller', '5a'.repeat(32), '--callers', 'callers.json'],
      /either --caller or --callers must be given/,
    ],
    [
      'a file of callers that is not there',
      ['--callers', 'none.json'],
      /--callers can’t be read from none\.json: ENOENT/,
    ],
    ['a caller that is no key', ['--caller', 'me'], /--caller must be 64 hexadecimal digits/],
    [
      'a caller’s secret key',
      ['--caller', `${'5a'.repeat(31)}fa`],
      /--caller must be a public key, .*: a secret one was given/,
    ],
    [
      'an owner that is no address',
      ['--caller', `${'5a'.repeat(32)}=me`],
      /--caller: the owner of key 5a5a5a5a… must be an address/,
    ],
    [
      'an owner with another behind it',
      ['--caller', `${'5a'.repeat(32)}=${'b'.repeat(40)}=${'c'.repeat(40)}`],
      /must be an address/,
    ],
    [
      'a caller that is named twice, with another owner and in other letters',
      [
        ...['--caller', `${'5a'.repeat(32)}=${'b'.repeat(40)}`],
        ...['--caller', `${'5A'.repeat(32)}=${'c'.repeat(40)}`],
      ],
      /--caller: the key 5a5a5a5a… is named twice/,
    ],
    [
      'a port that is given twice',
      ['--caller', '5a'.repeat(32), '--port', '70000', '--port', '0'],
      /--port must be given once only/,
    ],
    [
      'a vault that is given twice',
      ['--caller', '5a'.repeat(32), '--vault', 'x', '--vault', 'vault'],
      /--vault must be given once only/,
    ],
    [
      'a port that is none',
      ['--caller', '5a'.repeat(32), '--port', '70000'],
      /port must be at most/,
    ],
    [
      'a directory that is no vault',
      ['--caller', '5a'.repeat(32), '--vault', 'x'],
      /x is not a vault/,
    ],
    [
      'a file that is no key',
      ['--caller', '5a'.repeat(32), '--key', 'vault/vault.json'],
      /vault\.json must be 64/,
    ],
    [
      'a key in place of its file',
      ['--caller', '5a'.repeat(32), '--key', '5A'.repeat(32)],
      /file must be the path of a file with a key, not the digits of a key/,
    ],
    [
      'a file that is not there',
      ['--caller', '5a'.repeat(32), '--key', 'nowhere'],
      /--key can’t be read from nowhere: ENOENT/,
    ],
  ])('refuses %s', async (_what, args, message) => {
    const key = join(folder, 'refused.key')
    await run(['keygen', 'refused.key'])
    const others = [
      ['--key', key],
      ['--port', '0'],
    ].flatMap(pair => (args.includes(pair[0] as string) ? [] : pair))
    const { code, err } = await run(['enclave', ...others, ...args])
    expect(err).toMatch(message)
    // A caller's secret key may have been given by mistake.
    expect(err).not.toMatch(/[0-9a-f]{9}/i)
    expect(err.split('\n')).toHaveLength(2)
    expect(code).not.toBe(0)
  })
})
