import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, expect, test } from '@jest/globals'
import { command } from '@sluice/test-support/command.js'
import { root } from '@sluice/test-support/sources.js'

// What a start loads, as time would measure the machine. The benchmark `load` has the time.

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-start-'))
})
afterEach(() => rmSync(folder, { recursive: true }))

/** The files that a process of `sluice` loads, below the root of the repository. */
async function loadedBy(args: readonly string[]): Promise<readonly string[]> {
  await promisify(execFile)(process.execPath, [command, ...args], {
    // V8 writes down each file that was run.
    env: { NODE_V8_COVERAGE: folder },
  })
  const [file = ''] = readdirSync(folder)
  const { result } = JSON.parse(readFileSync(join(folder, file), 'utf8')) as {
    readonly result: readonly { readonly url: string }[]
  }
  return result
    .flatMap(({ url }) => (url.startsWith('file:') ? [relative(root, fileURLToPath(url))] : []))
    .sort()
}

test.each(['--version', '--help', 'help'])(
  'sluice %s loads the program, the parser and nothing else',
  async line => {
    const loaded = await loadedBy([line])
    const dist = dirname(relative(root, command))
    expect(loaded).toEqual(
      ['shared/commander.js', 'shared/program.js', 'sluice.js'].map(file => join(dist, file)),
    )
  },
)

test('a command loads no package of another', async () => {
  const loaded = await loadedBy(['latest', '--help'])
  expect(loaded).toContain(join('packages/cli/dist/esm/shared/commands/requests.js'))
  for (const name of ['engine', 'confidential-http', 'sinks'])
    expect(loaded.filter(file => file.startsWith(join('packages', name, '/')))).toEqual([])
  const commands = loaded.filter(file => file.includes(join('shared', 'commands', '/')))
  expect(commands).toHaveLength(1)
})
