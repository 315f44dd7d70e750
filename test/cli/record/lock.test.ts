import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { lock } from '../../../cli/record/lock.js'
import { startOf } from '../../../local/running.js'
import { built } from '../../support/files.js'
import { until } from '../../support/waiting.js'

const NOBODY = 2 ** 22 + 1
const onLinux = process.platform === 'linux' ? test : test.skip

let dir: string
let path: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
  path = join(dir, 'recording.lock')
})
afterEach(() => rmSync(dir, { recursive: true }))

const write = (owner: object, to = path): void => writeFileSync(to, JSON.stringify(owner))

/** Takes the lock, and looks at what it leaves. */
function expectTaken(): void {
  const unlock = lock(dir)
  expect(readdirSync(dir)).toEqual(['recording.lock'])
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({
    pid: process.pid,
    start: startOf(process.pid),
  })
  unlock()
  expect(readdirSync(dir)).toEqual([])
}

test('a lock of a process that has ended is taken over', () => {
  write({ pid: NOBODY })
  expectTaken()
})

test('so is one of a process that was killed while it took another over', () => {
  write({ pid: NOBODY })
  write({ pid: NOBODY }, `${path}.next`)
  expectTaken()
})

onLinux('so is one whose number another process has now', () => {
  for (const pid of [process.pid, process.ppid]) {
    write({ pid, start: '1' })
    expectTaken()
  }
})

onLinux('so is one of a process that was killed, and that nobody has waited for', async () => {
  // The shell becomes a program that waits for no children, before its child ends.
  const parent = spawn('sh', ['-c', 'sleep 0.3 & echo $!; exec sleep 60'])
  try {
    const pid = Number((await once(parent.stdout, 'data'))[0])
    await until(() => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z '), 10_000)
    write({ pid, start: startOf(pid) })
    expectTaken()
  } finally {
    parent.kill()
  }
})

test.each([
  ['of a process that runs', { pid: process.ppid, start: startOf(process.ppid) }, process.ppid],
  ['without a start, of a process that runs', { pid: process.ppid }, process.ppid],
  ['of this process', { pid: process.pid, start: startOf(process.pid) }, process.pid],
])('a lock %s counts', (_whose, owner, pid) => {
  write(owner)
  const rule = `process ${pid} records into ${dir}: ${path} says so, and may be removed if no recorder runs`
  expect(() => lock(dir)).toThrow(`--dir: ${rule}`)
  expect(readdirSync(dir)).toEqual(['recording.lock'])
})

test.each(['', '{', 'null', '{"pid":-1}', '{"pid":"x"}'])(
  'a lock with the text %j counts',
  text => {
    writeFileSync(path, text)
    expect(() => lock(dir)).toThrow(`another process records into ${dir}: ${path} says so`)
    expect(readFileSync(path, 'utf8')).toBe(text)
  },
)

test('nobody removes a lock while another process takes it over', () => {
  write({ pid: NOBODY })
  write({ pid: process.ppid }, `${path}.next`)
  expect(() => lock(dir)).toThrow(`process ${process.ppid} records into`)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toEqual({ pid: NOBODY })
})

test('of many processes that find the lock of a dead one at once, one takes it', async () => {
  const module = built('esm/shared/cli/record/lock.js')
  const code = `import { lock } from ${JSON.stringify(module)}
process.stdout.write('ready ')
process.stdin.once('data', () => {
  try { lock(${JSON.stringify(dir)}); process.stdout.write('taken ') }
  catch (error) { process.stdout.write(error.message) }
}).once('end', () => process.exit())`
  const children = Array.from({ length: 4 }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', code]),
  )
  const outputs = children.map(() => '')
  children.forEach((child, index) => {
    child.stdout.on('data', chunk => {
      outputs[index] += String(chunk)
    })
  })
  try {
    await until(() => outputs.every(output => output === 'ready '), 30_000)
    write({ pid: NOBODY })
    for (const { stdin } of children) stdin.write('go')
    await until(() => outputs.every(output => output.length > 'ready '.length), 30_000)
    expect(outputs.filter(output => output === 'ready taken ')).toHaveLength(1)
    for (const output of outputs) expect(output).toMatch(/^ready (taken $|--dir: )/)
  } finally {
    for (const child of children) child.kill()
  }
})
