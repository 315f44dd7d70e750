import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { startOf, thisProcess } from '@sluice/source/platform/node/lock.js'
import { built } from '@sluice/test-support/files.js'
import { inForm } from '@sluice/test-support/tier.js'
import { failureOf, pause, until } from '@sluice/test-support/waiting.js'
import { Recording } from '../../record/recording.js'

const NOBODY = 2 ** 22 + 1
const onLinux = process.platform === 'linux' ? test : test.skip

let dir: string
let path: string
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-lock-'))
  path = join(dir, 'recording.lock')
})
afterEach(() => rmSync(dir, { recursive: true }))

const lock = async (directory: string): Promise<() => Promise<void>> => {
  const recording = await Recording.open(directory)
  return () => recording.close()
}
const write = (owner: object, to = path): void => writeFileSync(to, JSON.stringify(owner))
const facts = thisProcess()
const parent = { ...facts, pid: process.ppid, start: startOf(process.ppid) }

/** Takes the lock, and looks at what it leaves. */
async function expectTaken(): Promise<void> {
  const unlock = await lock(dir)
  expect(readdirSync(dir)).toEqual(['recording.lock'])
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject(facts)
  await unlock()
  expect(readdirSync(dir)).toEqual([])
}

test('a lock of a process that has ended is taken over', async () => {
  write({ ...facts, pid: NOBODY })
  await expectTaken()
})

test('so is one of a process that was killed while it took another over', async () => {
  write({ ...facts, pid: NOBODY })
  write({ ...facts, pid: NOBODY }, `${path}.next`)
  await expectTaken()
})

onLinux('so is one whose number another process has now', async () => {
  for (const pid of [process.pid, process.ppid]) {
    write({ ...facts, pid, start: '1' })
    await expectTaken()
  }
})

onLinux('so is one of a process that was killed, and that nobody has waited for', async () => {
  // The shell becomes a program that waits for no children, before its child ends.
  const shell = spawn('sh', ['-c', 'sleep 0.3 & echo $!; exec sleep 60'])
  try {
    const pid = Number((await once(shell.stdout, 'data'))[0])
    await until(() => readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z '))
    write({ ...facts, pid, start: startOf(pid) })
    await expectTaken()
  } finally {
    shell.kill()
  }
})

test.each([
  ['of a process that runs', parent, `process ${process.ppid}`],
  ['of this process', facts, `this process ${process.pid}`],
])('a lock %s counts', async (_whose, owner, name) => {
  write(owner)
  const rule = `${name} on ${facts.host} (started at ${facts.started}) records into ${dir}: ${path} is its lock`
  expect((await failureOf(lock(dir))).message).toBe(`--dir: ${rule}`)
  expect(readdirSync(dir)).toEqual(['recording.lock'])
})

test('nobody removes a lock while another process takes it over', async () => {
  write({ ...facts, pid: NOBODY })
  write(parent, `${path}.next`)
  const locking = lock(dir)
  await pause(100)
  expect(JSON.parse(readFileSync(path, 'utf8'))).toMatchObject({ pid: NOBODY })
  rmSync(`${path}.next`)
  await (await locking)()
})

test('of many processes that find the lock of a dead one at once, one takes it', async () => {
  const module = built('esm/internal.js')
  const code = `import { takeLock } from ${JSON.stringify(module)}
process.stdout.write('ready ')
process.stdin.once('data', async () => {
  const taken = await takeLock(${JSON.stringify(path)})
  process.stdout.write(typeof taken === 'string' ? taken : 'taken ')
}).once('end', () => process.exit())`
  const children = Array.from({ length: inForm(2, 4) }, () =>
    spawn(process.execPath, ['--input-type=module', '-e', code]),
  )
  const outputs = children.map(() => '')
  children.forEach((child, index) => {
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', chunk => {
        outputs[index] += String(chunk)
      })
  })
  const oneEnds = Promise.race(children.map(child => once(child, 'exit'))).then(() => {
    throw new Error(`a process has ended: ${outputs.join('; ')}`)
  })
  oneEnds.catch(() => undefined)
  const untilAll = (condition: () => boolean): Promise<unknown> =>
    Promise.race([until(condition), oneEnds])
  try {
    await untilAll(() => outputs.every(output => output === 'ready '))
    write({ ...facts, pid: NOBODY })
    for (const { stdin } of children) stdin.write('go')
    await untilAll(() => outputs.every(output => output.length > 'ready '.length))
    expect(outputs.filter(output => output === 'ready taken ')).toHaveLength(1)
    for (const output of outputs) expect(output).toMatch(/^ready (taken $|process \d+ on )/)
  } finally {
    for (const child of children) child.kill()
  }
})
