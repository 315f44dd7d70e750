import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { command } from '@sluice/test-support/command.js'
import { cases, pipelines, World } from './support/cli/every-command.js'
import { start } from './support/cli.js'

const home = process.cwd()
let world: World
beforeAll(async () => {
  world = await World.start()
  process.chdir(world.folder)
})
afterAll(async () => {
  process.chdir(home)
  await world[Symbol.asyncDispose]()
})

// That of certify takes a while, and certify/command.test.ts has it.
test.each(Object.entries(cases).filter(([name]) => name !== 'certify'))(
  'sluice %s prints nothing that only a terminal understands where there is none',
  async (name, { args, until: shown, pipe }) => {
    const { ended, shows, stop } = start([name, ...args], { env: world.env(), input: '' })
    if (shown !== undefined) {
      await shows(shown)
      stop()
    }
    const { out, err, code } = await ended
    expect([out, err]).toEqual([expect.stringMatching(pipe), expect.anything()])
    expect([code, out.includes('\x1b'), err.includes('\r')]).toEqual([0, false, false])
  },
)

const shell = promisify(execFile)

test.each(pipelines)('sluice %s', async (pipeline, expected) => {
  const script = `sluice() { '${process.execPath}' '${command}' "$@"; }; sluice ${pipeline}`
  const env = { PATH: process.env.PATH, ...world.env() }
  const { stdout, stderr } = await shell('sh', ['-c', script], { cwd: world.folder, env })
  expect(stderr).toBe('')
  expect(stdout).toMatch(expected)
})
