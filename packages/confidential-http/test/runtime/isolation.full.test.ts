import { type ChildProcess, fork } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import {
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  rmSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals'
import { whenEnded } from '@sluice/test-support/processes.js'
import { until } from '@sluice/test-support/waiting.js'
import { callerText } from '../support/program.js'
import { inputOf } from '../support/sending.js'
import { startWorld, type World } from '../support/world.js'

/** What is searched for: 36 digits, which no escaping changes. */
const core = randomBytes(18).toString('hex')
/** Nobody but this process, the vault's and the external server's is ever given it. */
const secret = `"\\${core}/%&`
/** What the caller makes things out of that are to be found. */
const marker = randomBytes(18).toString('hex')
let world: World
beforeAll(async () => {
  world = await startWorld({ apiKey: secret })
})
afterAll(() => world.close())

/** Digits as they may stand somewhere: as they are, in base64 at whichever place, in hexadecimal digits, in UTF-16. */
function formsOf(digits: string): readonly Buffer[] {
  const base64 = ['', '.', '..'].map(before =>
    btoa(before + digits)
      .slice(before === '' ? 0 : 4)
      .replace(/.{0,3}=*$/, ''),
  )
  const hex = Buffer.from(digits).toString('hex')
  return [
    ...[digits, ...base64, hex, hex.toUpperCase()].map(each => Buffer.from(each)),
    Buffer.from(digits, 'utf16le'),
    Buffer.from([...digits].reverse().join('')),
  ]
}

function holds(where: Buffer, text: string): boolean {
  return formsOf(text).some(form => where.includes(form))
}

test('the search finds the secret in each of its forms', () => {
  for (const form of formsOf(core))
    expect(holds(Buffer.concat([randomBytes(9), form]), core)).toBe(true)
  for (const before of ['', 'a', 'ab', 'abc'])
    expect(holds(Buffer.from(btoa(`${before}${secret} and more`)), core)).toBe(true)
  for (const text of [JSON.stringify({ secret }), encodeURIComponent(secret), `Bearer ${secret}`])
    expect(holds(Buffer.from(text), core)).toBe(true)
  expect(holds(randomBytes(1000), core)).toBe(false)
})

/** Every page another process can read of its own. */
function readMemory(pid: number | undefined): Buffer[] {
  const file = openSync(`/proc/${pid}/mem`, 'r')
  try {
    return readFileSync(`/proc/${pid}/maps`, 'utf8')
      .split('\n')
      .flatMap(line => {
        const [, from, to] = /^([0-9a-f]+)-([0-9a-f]+) rw/.exec(line) ?? []
        if (from === undefined || to === undefined) return []
        const start = BigInt(`0x${from}`)
        const region = Buffer.alloc(Number(BigInt(`0x${to}`) - start))
        try {
          readSync(file, region, 0, region.length, start)
        } catch {}
        return [region]
      })
  } finally {
    closeSync(file)
  }
}

describe.each(['local', 'remote'])('with a %s runtime', kind => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-isolation-'))
  const read = (name: string) => readFileSync(join(folder, name))
  let caller: ChildProcess
  let printed = ''

  beforeAll(async () => {
    world.hits.length = 0
    caller = fork(join(__dirname, '../support/isolated-caller.cjs'), {
      silent: true,
      execArgv: [],
      env: {
        PATH: process.env.PATH,
        CALLER: JSON.stringify({
          kind,
          folder,
          marker,
          input: inputOf(world, '/'),
          local: callerText(world, 'local').options,
          remote: callerText(world, 'remote').options,
        }),
      },
    })
    for (const stream of [caller.stdout, caller.stderr])
      stream?.on('data', chunk => {
        printed += chunk
      })
    const said = new Set<unknown>()
    caller.on('message', message => said.add(message))
    caller.on('exit', code => {
      if (code !== 0) printed += `the caller ended with ${code}`
    })
    await until(() => world.hits.some(({ path }) => path === '/hold') || printed !== '')
    caller.send('held')
    await until(() => said.has('release') || printed !== '')
    world.release()
    await until(() => said.has('ready') || printed !== '')
  }, 60_000)
  afterAll(async () => {
    if (caller.connected) caller.send('go')
    await whenEnded(caller)
    rmSync(folder, { recursive: true })
  })

  test('the external server got the secret', () => {
    expect(printed).toBe('')
    const [hit] = world.hits
    expect(hit).toMatchObject({ path: '/hold', body: `key=${secret}` })
    expect(hit?.headers.authorization).toBe(`Bearer ${secret}`)
  })

  test('what is in the heap of the caller, and in its buffers, is found', () => {
    const digest = (word: string) =>
      createHash('sha256')
        .update(word + marker)
        .digest('hex')
    expect(holds(read('planted.heapsnapshot'), digest('text'))).toBe(true)
    // Of a buffer a snapshot shows the size only: what it holds has to be looked for where it lies.
    expect(holds(read('planted.buffers'), digest('bytes'))).toBe(true)
  })

  test('the secret is not in the heap of the caller, nor in its buffers, at any time', () => {
    const files = readdirSync(folder).filter(name => name !== 'output')
    expect(files.sort().join(' ')).toBe(
      ['after', 'blocking', 'during', 'end', 'planted']
        .flatMap(moment => [`${moment}.buffers`, `${moment}.heapsnapshot`])
        .join(' '),
    )
    expect(files.filter(name => holds(read(name), core))).toEqual([])
  })

  test('the secret is in no line, error, response or other object that the caller was given', () => {
    const output = read('output')
    expect(output.toString()).toMatch(
      kind === 'local' ? /secrets released: apiKey/ : /200 in \d+ ms/,
    )
    expect(output.toString()).not.toMatch(/unhandled|uncaught/)
    expect(holds(output, core)).toBe(false)
  })

  const inMemory = process.platform === 'linux' ? test : test.skip
  inMemory(
    `the memory of the caller's process ${kind === 'local' ? 'holds the secret, in the thread' : 'does not hold the secret'}`,
    () => {
      const memory = readMemory(caller.pid)
      expect(memory.some(region => holds(region, marker))).toBe(true)
      expect(memory.some(region => holds(region, core))).toBe(kind === 'local')
    },
  )
})
