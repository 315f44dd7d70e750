import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'

/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69

test('the page of examples/react shows the prices of a gateway', async () => {
  const child = spawn(process.execPath, [join(__dirname, 'react.mjs')])
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', chunk => {
      output += chunk
    })
  const [code] = await once(child, 'close')
  if (code === UNAVAILABLE) {
    console.warn(`skipped: ${output}`)
    return
  }
  expect({ output, code }).toMatchObject({ code: 0 })
  expect(output.match(/^ok/gm)).toHaveLength(6)
}, 120_000)
