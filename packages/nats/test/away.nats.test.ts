import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

test('a log that is away for ten seconds fills no memory, pauses the connections, and loses nothing', async () => {
  const program = join(__dirname, 'away.mjs')
  const child = spawn(process.execPath, [
    program,
    '--seconds',
    '10',
    '--feeds',
    '50',
    '--rate',
    '200',
  ])
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', data => {
      output += data
    })
  const [code] = await once(child, 'close')
  expect([code, code === 0 ? '' : output]).toEqual([0, ''])
}, 120_000)
