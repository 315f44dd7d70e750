import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect } from '@jest/globals'

/** The exit code of a program that found no Chromium. */
const UNAVAILABLE = 69

/** Runs a program that checks a page in Chromium, and prints a line that begins with ok for each check. */
export async function runInChromium(program: string, checks: number): Promise<void> {
  const child = spawn(process.execPath, [program])
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
  expect(output.match(/^ok/gm)).toHaveLength(checks)
}
