import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { expect, test } from '@jest/globals'

// The short form of a program that measures more: its times are not judged here, since a machine that
// runs other tests says nothing about them.
test('a gateway answers thousands of users, hundreds of streams and idle sockets at once', async () => {
  const program = fileURLToPath(new URL('../gateway-load.mjs', import.meta.url))
  const child = spawn(process.execPath, [program, 'users', '--short'])
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', data => {
      output += data
    })
  await once(child, 'close')
  for (const goal of [
    'every user got an answer',
    '/health answered throughout',
    'no stream was closed',
  ])
    expect(output).toContain(`met: ${goal}`)
}, 60_000)
