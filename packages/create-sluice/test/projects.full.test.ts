// Makes each project, and runs its test. The packages of this repository take the place of those
// that npm would install; `npm run test:package` has npm install them.
import { execFile, spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { built } from '@sluice/test-support/files.js'
import { root } from '@sluice/test-support/sources.js'
import type { Kind } from '../project.js'

const work = mkdtempSync(join(tmpdir(), 'sluice-projects-'))
afterAll(() => rmSync(work, { recursive: true }))
// For Windows, which lets everybody make a junction. Elsewhere it is a symbolic link.
symlinkSync(join(root, 'node_modules'), join(work, 'node_modules'), 'junction')

function runNode(args: readonly string[], cwd: string): Promise<{ code: unknown; out: string }> {
  return new Promise(resolve => {
    execFile(process.execPath, args, { cwd, timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : error.code, out: stdout + stderr }),
    )
  })
}

/** What `npm test` runs in a project: the compiler, then the tests in what it has made. */
async function runTest(folder: string): Promise<{ code: unknown; out: string }> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const compiled = await runNode([tsc, '--pretty', 'false'], folder)
  return compiled.code === 0
    ? runNode(['--test', '--test-reporter=tap'], join(folder, 'dist'))
    : compiled
}

/** Replaces a text in a file of a project, and runs its test. */
function runTestAfter(folder: string, file: string, from: string, to: string) {
  const path = join(folder, file)
  const text = readFileSync(path, 'utf8')
  expect(text).toContain(from)
  writeFileSync(path, text.replace(from, to))
  return runTest(folder)
}

async function make(kind: Kind, name: string = `my-${kind}`): Promise<string> {
  const command = built('esm/create-sluice.js', 'create-sluice')
  const made = await runNode([command, name, '--kind', kind, '--no-install'], work)
  expect(made).toEqual({ code: 0, out: expect.stringContaining('npm test') })
  return join(work, name)
}

const kit = join(root, 'testing/index.ts')
/** Whether the kit has a function. Only the test of an app does without the kit. */
const hasKit = (name: string): boolean =>
  existsSync(kit) && readFileSync(kit, 'utf8').includes(name)

/** For each kind what its test needs of the kit, and a defect that its test has to find. */
const projects: readonly (readonly [
  Kind,
  string | undefined,
  [file: string, from: string, to: string],
])[] = [
  ['app', undefined, ['src/prices.ts', 'decoded.price, 18', 'decoded.price, 17']],
  ['plugin', 'testPlugin', ['src/index.ts', '<= ms', '>= 0']],
  ['decoder', 'testDecoder', ['src/index.ts', "'bool', updatedAt", "'uint8', updatedAt"]],
  ['store', 'testCursorStore', ['src/index.ts', "flag: 'wx'", "flag: 'w'"]],
]

describe.each(projects)('%s', (kind, needed, [file, from, to]) => {
  const runs = needed === undefined || hasKit(needed) ? test : test.skip

  runs(
    'its test passes, and finds a defect',
    async () => {
      const folder = await make(kind)
      const { code, out } = await runTest(folder)
      expect(out).toMatch(/^# pass [1-9]\d*\n# fail 0$/m)
      expect(code).toBe(0)
      expect((await runTestAfter(folder, file, from, to)).out).toMatch(/^# fail [1-9]/m)
    },
    120_000,
  )
})

/** Starts a built app, and has it end after two prices. Keys of this machine are not used. */
function startApp(folder: string, env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, ['dist/start.js'], {
    cwd: folder,
    env: { PATH: process.env.PATH ?? '', ...env },
  })
  let out = ''
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', chunk => {
      out += chunk
      // As Ctrl-C.
      if ((out.match(/^\d{4}-\S+Z \d+\.\d\d$/gm) ?? []).length > 1) child.kill('SIGINT')
    })
  const guard = setTimeout(() => child.kill('SIGKILL'), 20_000)
  return new Promise<{ code: number | null; out: string }>(resolve =>
    child.on('close', code => {
      clearTimeout(guard)
      resolve({ code, out })
    }),
  )
}

test('an app prints prices of a local engine, or of the service that its keys are for', async () => {
  const folder = await make('app', 'my-started-app')
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  expect(await runNode([tsc], folder)).toEqual({ code: 0, out: '' })
  const local = await startApp(folder, {})
  expect(local.out).toMatch(/^API_KEY and USER_SECRET are not set/)
  expect(local.code).toBe(0)

  const feedID = /'(0x\w{64})'/.exec(readFileSync(join(folder, 'src/start.ts'), 'utf8'))?.[1]
  const engine = await startDataEngine({ feeds: [feedID as string] })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const service = { REST_URL: endpoint, WS_URL: wsEndpoint }
  const keys = { API_KEY: apiKey, USER_SECRET: userSecret }
  const real = await startApp(folder, { ...service, ...keys })
  await engine.close()
  expect(real).toEqual({ code: 0, out: expect.stringMatching(/^(\d{4}-\S+Z \d+\.\d\d\n)+$/) })
}, 60_000)
