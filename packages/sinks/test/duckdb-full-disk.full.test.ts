// A database whose disk is full, and one that the process may not write: each needs a process of its own.
import { spawnSync } from 'node:child_process'
import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { makeFolder, query } from './support/databases.js'
import { compileProgram, runCommand, runProgram } from './support/programs.js'

const isRoot = process.getuid?.() === 0

const canSwitch = !isRoot || spawnSync('setpriv', ['--version']).status === 0
const withUsers = canSwitch ? test : test.skip

withUsers('a file that this process may not write is an error that ends the stream', async () => {
  const folder = makeFolder()
  const path = join(folder, 'prices.db')
  await query(path, 'SELECT 1')
  chmodSync(path, 0o444)
  chmodSync(folder, 0o755)
  const program = compileProgram('full-disk')
  // Root may write any file.
  const { lines, ended } = isRoot
    ? runCommand(
        'setpriv',
        ...['--reuid=65534', '--regid=65534', '--clear-groups', process.execPath, program, path],
      )
    : runProgram(program, path)
  await ended
  expect(lines.join('\n')).toContain(
    `ValidationError: duckdb ${path} can’t be opened: this process may not write it`,
  )
})

const hasLimits = spawnSync('prlimit', ['--version']).status === 0
const onLinux = hasLimits ? test : test.skip

onLinux('a disk that is full holds up the sink until there is room', async () => {
  const path = join(makeFolder(), 'prices.db')
  const program = compileProgram('full-disk')
  const total = 1500
  // A limit of the process on the size of its files: that of the log of changes.
  const { child, line, ended, lines } = runCommand(
    ...(['sh', '-c'] as const),
    `trap '' XFSZ; exec prlimit --fsize=500000:unlimited ${process.execPath} ${program} ${path} ${total}`,
  )
  const failure = JSON.parse((await line('failed')).slice('failed '.length))
  expect(failure).toMatchObject({
    name: 'DataStreamsError',
    isRetryable: true,
    message: `duckdb ${path} can’t be written: the disk is full`,
  })
  spawnSync('prlimit', ['--fsize=unlimited', '--pid', String(child.pid)])
  expect(await ended).toBe(0)
  expect(lines.filter(each => !each.startsWith('failed'))).toEqual([])
  const sql = `SELECT count(*)::INT AS n, count(DISTINCT (feed_id, observations_timestamp))::INT AS keys
    FROM reports_v3`
  expect(await query(path, sql)).toEqual([{ n: total, keys: total }])
})
