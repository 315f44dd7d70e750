import { once } from 'node:events'
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals'
import { ConfidentialHTTPClient, createRemoteRuntime } from '@sluice/confidential-http'
import { type HTTPSServer, startHTTPSServer } from '@sluice/engine'
import { type Running, startCommand } from '@sluice/test-support/command.js'
import { failureOf } from '@sluice/test-support/waiting.js'
import { type RunningHere, runHere, start as startHere } from './support/cli.js'

const home = process.cwd()
let folder: string
let api: HTTPSServer
let received: string[] = []
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-vault-holders-'))
  process.chdir(folder)
})
afterEach(() => {
  process.chdir(home)
  rmSync(folder, { recursive: true, force: true })
})
beforeAll(async () => {
  api = await startHTTPSServer({
    handler({ headers }, response) {
      received.push(String(headers.authorization))
      response.end('ok')
    },
  })
})
afterAll(() => api.close())

const wordsOf = (line: string): readonly string[] => line.split(' ').slice(1)
const runLine = (line: string, input = '') => runHere(wordsOf(line), { input })
async function run(line: string, input = ''): Promise<string> {
  const { code, out, err } = await runLine(line, input)
  expect([line, code, err]).toEqual([line, 0, ''])
  return out
}

/** The lines of a section of a page about the vault, with these words in place of what they leave open. */
function documented(
  words: Readonly<Record<string, string>>,
  page = 'guides',
  title = '## Holders as processes',
  which = 0,
): readonly string[] {
  const text = readFileSync(join(__dirname, '../../../docs', page, 'vault.md'), 'utf8')
  const [, section = ''] = text.split(`${title}\n`)
  const [, block = ''] = [...section.matchAll(/```sh\n([^`]+)```/g)][which] ?? []
  const filled = Object.entries(words).reduce(
    (filling, [from, to]) => filling.replaceAll(from, to),
    block,
  )
  return filled.split('\n').flatMap(line => {
    const [command = ''] = line.split(/\s+#/)
    return command === '' ? [] : [command]
  })
}

async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer())
  const ports: number[] = []
  for (const server of servers) {
    await once(server.listen(0, '127.0.0.1'), 'listening')
    ports.push((server.address() as AddressInfo).port)
  }
  await Promise.all(servers.map(server => new Promise(done => server.close(done))))
  return ports
}

interface Holder {
  readonly key: string
  end(): Promise<unknown>
}

/** Waits until a holder runs. */
async function untilRuns(
  { shows, output }: Running | RunningHere,
  end: Holder['end'],
): Promise<Holder> {
  await shows(/HOLDER_KEY=/)
  return { key: /HOLDER_KEY=(.*)/.exec(output.out)?.[1] ?? '', end }
}

/** Starts a holder as a process, which is ended by SIGKILL. */
function startProcess(line: string): Promise<Holder> {
  const holder = startCommand(wordsOf(line), { cwd: folder, input: null })
  return untilRuns(holder, () => {
    holder.child.kill('SIGKILL')
    return holder.ended
  })
}

/** Starts a holder in the test itself, which is ended as by Ctrl-C. */
function startHolder(line: string): Promise<Holder> {
  const holder = startHere(wordsOf(line))
  return untilRuns(holder, () => {
    holder.stop()
    return holder.ended
  })
}

interface Asked {
  ask(): Promise<unknown>
  end(): Promise<void>
}

async function startEnclave(
  callerPublicKey: string,
  options = '',
  key = 'enclave.key',
): Promise<Asked> {
  const enclave = startHere(
    wordsOf(
      `sluice enclave --key ${key} --caller ${callerPublicKey} --port 0 --loopback${options}`,
    ),
  )
  await enclave.shows(/ENCLAVE_PUBLIC_KEY=/)
  const found = (name: string): string =>
    new RegExp(`${name}=(.*)`).exec(enclave.output.out)?.[1] ?? ''
  const runtime = createRemoteRuntime({
    url: found('ENCLAVE_URL'),
    enclavePublicKey: found('ENCLAVE_PUBLIC_KEY'),
    callerSecretKey: readFileSync(join(folder, 'caller.key'), 'utf8').trim(),
  })
  return {
    ask: () =>
      new ConfidentialHTTPClient().sendRequestAsync(runtime, {
        vaultDonSecrets: [{ key: 'token' }],
        request: {
          url: api.url,
          method: 'GET',
          multiHeaders: { Authorization: { values: ['{{.token}}'] } },
          customRootCaCertPem: api.ca,
        },
      }),
    async end() {
      await runtime.close()
      enclave.stop()
      await enclave.ended
    },
  }
}

/** Puts a copy of the vault's directory in its place. */
function putBack(copy: string): void {
  rmSync(join(folder, 'vault'), { recursive: true })
  cpSync(join(folder, copy), join(folder, 'vault'), { recursive: true })
}
const keep = (copy: string): void =>
  cpSync(join(folder, 'vault'), join(folder, copy), { recursive: true })

async function askFor(value: string, { ask }: Asked): Promise<void> {
  received = []
  await ask()
  expect(received).toEqual([value])
}

test('the documented lines work, again after each end, and holders notice a vault that was put back', async () => {
  const ports = await freePorts(3)
  const words = Object.fromEntries(
    ports.map((port, at) => [`127.0.0.1:750${at}`, `127.0.0.1:${port}`]),
  )
  const [keygen = '', init = ''] = documented(words)
  words["<the enclave's key>"] = (await run(keygen)).trim()
  const caller = (await run('sluice keygen caller.key')).trim()
  words["<the writer's key>"] = /writer +(\S+)/.exec(await run(init))?.[1] ?? ''
  await run('sluice vault put token --anywhere', 'first')
  const lines = documented(words).filter(line => line.startsWith('sluice vault holder'))
  expect(lines).toHaveLength(3)
  // One is a process, which is killed.
  const starts = [startProcess, startHolder, startHolder]
  const startAgain = (at: number): Promise<Holder> =>
    (starts[at] ?? startHolder)(lines[at] as string)
  const holders = await Promise.all(lines.map((_, at) => startAgain(at)))
  const reshare = documented(words)
    .find(line => line.startsWith('sluice vault reshare'))
    ?.split('<its key>')
    .map((part, at) => part + (holders[at]?.key ?? ''))
    .join('')
  expect(await run(reshare ?? '')).toContain('Generation 2')

  // Each holder ends, and starts again with its line.
  for (const [at, { key, end }] of [...holders.entries()]) {
    await end()
    holders[at] = await startAgain(at)
    expect(holders[at]?.key).toBe(key)
  }
  const twice = await runLine(lines[0] as string)
  expect([twice.code, twice.err]).toEqual([
    1,
    expect.stringMatching(/EADDRINUSE|written by another/),
  ])

  let enclave = await startEnclave(caller)
  await askFor('first', enclave)
  await enclave.end()

  // The holders are told of a change before anybody asks for a secret.
  keep('backup')
  await run('sluice vault put token --anywhere', 'second')
  const newest = Math.max(...readdirSync(join(folder, 'vault', 'manifests')).map(Number.parseFloat))
  await run('sluice vault list --rollback-state seen.txt')
  putBack('backup')
  enclave = await startEnclave(caller)
  received = []
  const error = await failureOf(enclave.ask())
  expect(error).toMatchObject({ code: 'ROLLBACK', mayHaveBeenSent: false })
  expect(error.message).toContain(
    `change ${newest} of the vault was seen, and this is ${newest - 1}`,
  )
  expect(received).toEqual([])
  const seen = await runLine('sluice vault list --rollback-state seen.txt')
  expect([seen.code, seen.err]).toEqual([
    1,
    expect.stringContaining(`change ${newest} was seen, and this is ${newest - 1}`),
  ])

  // The way back on purpose, which the running enclave follows.
  expect(await run(`sluice vault recover --after ${newest}`)).toBe(
    `The vault is at change ${newest + 65}\n`,
  )
  await askFor('first', enclave)
  expect(await run('sluice vault list --rollback-state seen.txt')).toContain('token  version 1')
  await run('sluice vault put token --anywhere', 'third')
  await askFor('third', enclave)
  const verified = await run('sluice audit verify vault/audit.jsonl')
  expect(verified).not.toContain('unrecorded')

  // A backup of before a resharing: its shares are gone, and those there are stay.
  keep('later')
  for (const at of [0, 1, 2]) {
    const file = join(folder, `holder-${at}`, 'holder.json')
    const peers = holders.map(({ key }) => key)
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), peers }))
  }
  await run('sluice vault reshare --threshold 2')
  keep('latest')
  const shares = () => readdirSync(join(folder, 'holder-0', 'shares'))
  expect(shares()).toEqual(['3.json'])
  putBack('later')
  const recovering = await runLine('sluice vault recover --after 200')
  expect([recovering.code, recovering.err]).toEqual([
    1,
    expect.stringMatching(
      /^sluice: the vault is at change 265, and too few holders have a share of its generation 2: put a later backup in place, and recover after 265; the holder at /,
    ),
  ])
  expect(shares()).toEqual(['3.json'])
  putBack('latest')
  expect(await run('sluice vault recover --after 265')).toBe('The vault is at change 330\n')
  await askFor('third', enclave)
  await run('sluice vault reshare')
  await askFor('third', enclave)
  expect(shares()).toEqual(['4.json'])
  await enclave.end()
  for (const { end } of holders) await end()
}, 60_000)

test('the lines for after a break-in work: no threshold with a holder from a backup answers a stolen key', async () => {
  const ports = await freePorts(7)
  const words: Record<string, string> = Object.fromEntries(
    ports.map((port, at) => [`127.0.0.1:750${at}`, `127.0.0.1:${port}`]),
  )
  const breakIn = (which: number): readonly string[] =>
    documented(words, 'reference', '### After a break-in', which)
  const [keygen = '', init = ''] = documented(words)
  const stolen = (await run(keygen)).trim()
  words["<the enclave's key>"] = stolen
  words['<the stolen key>'] = stolen
  const caller = (await run('sluice keygen caller.key')).trim()
  words["<the writer's key>"] = /writer +(\S+)/.exec(await run(init))?.[1] ?? ''
  await run('sluice vault put token --anywhere', 'first')
  const lines = documented(words).filter(line => line.startsWith('sluice vault holder'))
  const holders = await Promise.all(lines.map(startProcess))
  /** A line that names these holders. */
  const withKeys = (line = '', keys = holders.map(({ key }) => key)): string =>
    line.split('<its key>').reduce((text, part, at) => text + (keys[at - 1] ?? '') + part)
  await run(withKeys(documented(words).find(line => line.startsWith('sluice vault reshare'))))
  const trust = (at: number, change: (fields: Record<string, unknown>) => object): void => {
    const file = join(folder, `holder-${at}`, 'holder.json')
    writeFileSync(file, JSON.stringify(change(JSON.parse(readFileSync(file, 'utf8')))))
  }
  const backUp = (from: string, to: string): void => {
    rmSync(join(folder, to), { recursive: true, force: true })
    cpSync(join(folder, from), join(folder, to), {
      recursive: true,
      filter: path => !path.endsWith('.lock'),
    })
  }
  backUp('holder-0', 'backup-0')
  keep('backup')

  // The key of the enclave is stolen: the thief runs an enclave of its own.
  const thief = await startEnclave(caller)
  await askFor('first', thief)
  await thief.end()
  const [another = '', revoke = '', status = ''] = breakIn(0)
  const fresh = (await run(another)).trim()
  expect(await run(revoke)).toBe('Trust 1: the key is revoked\n')
  const shown = ports
    .slice(0, 3)
    .map((port, at) => `holder ${at}  http://127.0.0.1:${port}  trust 1  ready\n`)
  expect(await run(status)).toBe([`Trust 1: ${stolen} revoked\n`, ...shown].join(''))
  // An operator has forgotten the key in a file.
  for (const at of [0, 1]) trust(at, fields => ({ ...fields, callers: [fresh] }))
  trust(2, fields => ({ ...fields, callers: [fresh, stolen] }))

  const refusedTo = async (asked: Asked): Promise<void> => {
    received = []
    const error = await failureOf(asked.ask())
    // On a busy machine, the enclave may still be asking the holder that is away.
    expect(error.message).toMatch(/revoked|does not know this caller|not released in time/)
    expect(received).toEqual([])
    await asked.end()
  }
  // A holder from a backup, with the present directory, with that of the backup, and with one other holder only.
  keep('latest')
  for (const [copy, away] of [['latest'], ['backup'], ['backup', 1]] as const) {
    await holders[0]?.end()
    backUp('backup-0', 'holder-0')
    holders[0] = await startProcess(lines[0] as string)
    if (away !== undefined) await holders[away]?.end()
    putBack(copy)
    await refusedTo(await startEnclave(caller))
  }
  putBack('latest')
  holders[1] = await startProcess(lines[1] as string)
  backUp('backup-0', 'holder-0')
  await holders[0]?.end()
  backUp('backup-0', 'holder-0')
  holders[0] = await startProcess(lines[0] as string)
  const behind = await runLine(status)
  expect(behind.code).toBe(1)
  expect(behind.out).toContain("  trust 0, behind: it was sent the vault's  ready\n")
  expect(await run(`${status} --json`)).toMatch(
    /^\{"index":0,"url":"\S+","trust":1,"compared":"same","vaultTrust":1\}\n/,
  )
  trust(0, fields => ({ ...fields, callers: [fresh] }))
  const enclave = await startEnclave(caller, '', 'enclave-2.key')
  await askFor('first', enclave)

  // A holder is broken into.
  const peers = holders.map(({ key }) => key)
  for (const at of [0, 1, 2]) trust(at, fields => ({ ...fields, peers }))
  words["<the enclave's key>"] = fresh
  words['<the key of the broken holder>'] = peers[2] ?? ''
  const [without = '', revokeHolder = '', start = ''] = breakIn(1)
  expect(await run(withKeys(without))).toContain('Generation 3: 2 holders')
  expect(await run(revokeHolder)).toBe('Trust 2: the key is revoked\n')
  const added = await startProcess(start)
  const all = [...peers.slice(0, 2), added.key]
  for (const at of [0, 1, 3]) trust(at, fields => ({ ...fields, peers: [...all, peers[2]] }))
  const next = `${without} --holder http://127.0.0.1:${ports[3]}=<its key>`
  expect(await run(withKeys(next, all))).toContain('Generation 4: 3 holders')
  await askFor('first', enclave)
  const broken = await runLine(
    withKeys(`${without} --holder http://127.0.0.1:${ports[2]}=<its key>`, peers),
  )
  expect([broken.code, broken.err]).toEqual([1, expect.stringContaining('is revoked: give it')])

  // As many as the threshold are broken into: clean ones take their place, and the key is rotated.
  const admin = (await run('sluice keygen admin.key')).trim()
  const lineOf = (at: number): string =>
    start.replace('holder-3', `holder-${at}`).replace(`${ports[3]}`, `${ports[at]}`)
  const clean = await Promise.all([4, 5, 6].map(at => startProcess(lineOf(at))))
  const cleanKeys = clean.map(({ key }) => key)
  for (const at of [0, 1, 3, 4, 5, 6])
    trust(at, fields => ({ ...fields, peers: [...all, ...cleanKeys], callers: [fresh, admin] }))
  words['<the key of a broken holder>'] = all[0] ?? ''
  const [move, revokeOld = '', rotate = ''] = breakIn(2)
  expect(await run(withKeys(move, cleanKeys))).toContain('Generation 5: 3 holders')
  expect(await run(revokeOld)).toBe('Trust 3: the key is revoked\n')
  expect(await run(rotate)).toContain('Generation 6: 3 holders')
  await askFor('first', enclave)
  await enclave.end()
  for (const { end } of [...holders, added, ...clean]) await end()
}, 60_000)
