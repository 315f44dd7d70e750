import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { afterAll, describe, expect, test } from '@jest/globals'
import { built } from '@sluice/test-support/files.js'
import { manifest, root } from '@sluice/test-support/sources.js'
import { hasTerminals, runInTerminal } from '@sluice/test-support/terminal.js'
import { run } from '../program.js'
import { kinds } from '../project.js'

const home = join(__dirname, '..')
const work = mkdtempSync(join(tmpdir(), 'sluice-create-'))
afterAll(() => rmSync(work, { recursive: true }))

const newFolder = (): string => mkdtempSync(join(work, 'in-'))

interface Around {
  readonly cwd?: string
  /** The lines that a user types at a terminal; undefined where there is none. */
  readonly typed?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Runs the program. `asked` has the questions, in their order. */
async function create(
  args: readonly string[],
  { cwd = newFolder(), typed, env = {} }: Around = {},
) {
  const isTTY = typed !== undefined
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()]
  let [out, err] = ['', '']
  const answers = [...(typed ?? [])]
  const asked: string[] = []
  stdout.on('data', chunk => {
    out += chunk
    const [, question] = /([A-Z][\w ]+) \([^()]+\): $/.exec(String(chunk)) ?? []
    if (question === undefined) return
    asked.push(question)
    const answer = answers.shift()
    if (answer === undefined) stdin.end()
    else stdin.write(`${answer}\n`)
  })
  stderr.on('data', chunk => {
    err += chunk
  })
  if (!isTTY) stdin.end()
  const io = {
    stdin: Object.assign(stdin, { isTTY }),
    stdout: Object.assign(stdout, { isTTY }),
    stderr,
    env,
    cwd,
  }
  const code = await run(args, io, home)
  await new Promise(setImmediate)
  return { code, out, err, cwd, asked }
}

const readJSON = (...path: string[]) => JSON.parse(readFileSync(join(...path), 'utf8'))

describe('with a name and a kind nothing is asked', () => {
  test.each(Object.keys(kinds))('%s', async kind => {
    const { code, err, cwd, asked } = await create([`my-${kind}`, '--kind', kind, '--no-install'], {
      typed: [],
    })
    expect({ code, err, asked }).toEqual({ code: 0, err: '', asked: [] })
    const folder = join(cwd, `my-${kind}`)
    const files = readdirSync(folder).sort()
    const names = ['.gitattributes', '.gitignore', 'README.md', 'package.json', 'src']
    expect(files).toEqual([...names, 'tsconfig.json'])
    expect(readdirSync(join(folder, 'src')).some(file => file.endsWith('.test.ts'))).toBe(true)
    const { name, dependencies = {}, devDependencies } = readJSON(folder, 'package.json')
    expect(name).toBe(`my-${kind}`)
    const wanted = ['@types/node', 'sluice', 'typescript']
    const all = { ...dependencies, ...devDependencies }
    const hasEngine = kind === 'app' || kind === 'plugin'
    expect(Object.keys(all).sort()).toEqual(hasEngine ? ['@sluice/engine', ...wanted] : wanted)
    expect(all).toMatchObject({
      sluice: manifest.version,
      // The versions that the tests compile it with.
      typescript: manifest.devDependencies.typescript,
      '@types/node': manifest.devDependencies['@types/node'],
    })
    for (const file of [...files.filter(each => each !== 'src'), 'src/index.ts', 'src/start.ts'])
      if (existsSync(join(folder, file)))
        expect([file, readFileSync(join(folder, file), 'utf8')]).toEqual([
          file,
          expect.not.stringMatching(/\{\{|\r/),
        ])
    expect(readFileSync(join(folder, 'README.md'), 'utf8')).toMatch(`# my-${kind}\n`)
  })
})

describe('what is not given is asked', () => {
  test('the defaults are an app, and its name', async () => {
    const { code, cwd, asked } = await create(['--no-install'], { typed: ['', ''] })
    expect({ code, asked }).toEqual({ code: 0, asked: ['Kind', 'Folder'] })
    expect(readJSON(cwd, 'my-app', 'package.json').name).toBe('my-app')
  })

  test('three questions at most', async () => {
    const { code, cwd, asked } = await create([], { typed: ['3', '@acme/mine', 'n'] })
    expect({ code, asked }).toEqual({ code: 0, asked: ['Kind', 'Folder', 'Install now'] })
    expect(readFileSync(join(cwd, 'mine', 'src/index.ts'), 'utf8')).toMatch(/defineDecoder/)
    expect(existsSync(join(cwd, 'mine', 'node_modules'))).toBe(false)
  })

  test('the kind alone, or the name alone', async () => {
    const name = await create(['mine', '--no-install'], { typed: ['store'] })
    expect([name.code, name.asked]).toEqual([0, ['Kind']])
    const kind = await create(['--kind', 'store', '--no-install'], { typed: [''] })
    expect([kind.code, kind.asked]).toEqual([0, ['Folder']])
    expect(readdirSync(kind.cwd)).toEqual(['my-store'])
  })

  test('a wrong answer is asked for again, with the rule', async () => {
    const cwd = newFolder()
    mkdirSync(join(cwd, 'full', 'inside'), { recursive: true })
    const typed = ['zoo', 'plugin', '_mine', 'full', 'mine', 'perhaps', 'n']
    const { code, out } = await create([], { cwd, typed })
    expect(code).toBe(0)
    expect(out).toMatch('kind must be one of app, plugin, decoder, store: "zoo"')
    expect(out).toMatch('name must begin with a letter or a digit: "_mine"')
    expect(out).toMatch('full has inside')
    expect(out).toMatch('answer must be y or n')
    expect(readdirSync(cwd).sort()).toEqual(['full', 'mine'])
  })

  test('the end of the input is no answer: nothing is written', async () => {
    const { code, err, cwd } = await create([], { typed: ['plugin'] })
    expect(code).toBe(2)
    expect(err).toBe('create-sluice: no answer to "Folder": nothing was written\n')
    expect(readdirSync(cwd)).toEqual([])
  })
})

const inTerminal = hasTerminals ? test : test.skip
inTerminal('Ctrl-C at a question ends the program, and nothing is written', async () => {
  const cwd = newFolder()
  const program = built('esm/create-sluice.js', 'create-sluice')
  const { code, out } = await runInTerminal([], { program, cwd, until: /Kind \(app\): $/ })
  expect([code, out]).toEqual([130, expect.stringContaining('1 app ')])
  expect(readdirSync(cwd)).toEqual([])
})

describe('without a terminal', () => {
  test.each([
    [[], 'NAME and --kind must be given'],
    [['mine'], '--kind must be given'],
    [['--kind', 'app'], 'NAME must be given'],
  ])('%j is an error', async (args, message) => {
    const { code, out, err, cwd } = await create(args)
    expect([code, out, err]).toEqual([2, '', expect.stringContaining(message)])
    expect(readdirSync(cwd)).toEqual([])
  })

  test('--yes takes the defaults', async () => {
    const { code, cwd } = await create(['--yes', '--no-install'])
    expect([code, readdirSync(cwd)]).toEqual([0, ['my-app']])
    const other = await create(['-y', '--kind', 'decoder', '--no-install'])
    expect([other.code, readdirSync(other.cwd)]).toEqual([0, ['my-decoder']])
  })
})

describe('nothing is overwritten', () => {
  test('a folder with files is refused', async () => {
    const outer = newFolder()
    const cwd = join(outer, 'mine')
    mkdirSync(join(cwd, 'lib'), { recursive: true })
    const rule = 'create-sluice: folder must be new, or have only what a new repository has, and'
    const inside = await create(['.', '--kind', 'app'], { cwd })
    expect([inside.code, inside.err]).toEqual([2, `${rule} this folder has lib\n`])
    const beside = await create(['mine', '--kind', 'app'], { cwd: outer })
    expect([beside.code, beside.err]).toEqual([2, `${rule} mine has lib\n`])
    expect(readdirSync(cwd)).toEqual(['lib'])
    mkdirSync(join(outer, 'my-app', 'src'), { recursive: true })
    const byDefault = await create(['--yes'], { cwd: outer })
    expect([byDefault.code, byDefault.err]).toEqual([2, `${rule} my-app has src\n`])
  })

  test.each([
    [['.git/HEAD']],
    [['.git/HEAD', '.gitignore']],
    [['.git/HEAD', 'README.md', 'LICENSE']],
    [['.DS_Store', 'Thumbs.db', '.idea/x.xml', '.vscode/settings.json']],
    [['readme.txt', 'LICENCE.md', '.gitattributes', '.editorconfig', '.github/CODEOWNERS']],
  ])('what a new repository has is kept: %p', async files => {
    const cwd = join(newFolder(), 'Prices')
    for (const file of files) {
      mkdirSync(dirname(join(cwd, file)), { recursive: true })
      writeFileSync(join(cwd, file), 'mine')
    }
    const { code, err, out } = await create(['.', '--kind', 'app', '--no-install'], { cwd })
    expect([code, err]).toEqual([0, ''])
    for (const file of files) {
      const text = readFileSync(join(cwd, file), 'utf8')
      if (file !== '.gitignore') expect(text).toBe('mine')
      else expect(text).toMatch(/^mine\nnode_modules/)
    }
    const manifest = JSON.parse(readFileSync(join(cwd, 'package.json'), 'utf8'))
    expect(manifest.name).toBe('prices')
    expect(out.includes('kept README.md')).toBe(files.includes('README.md'))
  })

  test('a file is refused', async () => {
    const cwd = newFolder()
    writeFileSync(join(cwd, 'mine'), 'text')
    const { code, err } = await create(['mine', '--kind', 'app'], { cwd })
    expect([code, err]).toEqual([2, expect.stringContaining('mine is a file')])
    expect(readFileSync(join(cwd, 'mine'), 'utf8')).toBe('text')
  })

  test('an empty folder is taken', async () => {
    const cwd = join(newFolder(), 'here')
    mkdirSync(cwd)
    const { code, out } = await create(['.', '--kind', 'plugin', '--no-install'], { cwd })
    expect([code, out]).toEqual([0, 'wrote here: 7 files\n\n  npm install\n  npm test\n'])
    expect(readJSON(cwd, 'package.json').name).toBe('here')
  })
})

describe('tarballs in place of the registry', () => {
  const packed = join(work, 'packed')
  mkdirSync(packed)
  for (const name of ['sluice', 'sluice-engine'])
    writeFileSync(join(packed, `${name}-${manifest.version}.tgz`), '')

  test('the project asks for them by their path', async () => {
    const cwd = newFolder()
    const args = ['deep/mine', '--kind', 'app', '--no-install', '--packages', '../packed']
    expect((await create(args, { cwd })).code).toBe(0)
    const { dependencies, devDependencies } = readJSON(cwd, 'deep/mine/package.json')
    const { version } = manifest
    expect(dependencies.sluice).toBe(`file:../../../packed/sluice-${version}.tgz`)
    expect(devDependencies['@sluice/engine']).toBe(
      `file:../../../packed/sluice-engine-${version}.tgz`,
    )
    expect(existsSync(join(cwd, 'deep/mine', dependencies.sluice.slice('file:'.length)))).toBe(true)
  })

  test('so it does by the environment; what a plugin is for stays a version', async () => {
    const cwd = newFolder()
    const env = { SLUICE_PACKAGES: packed }
    expect((await create(['mine', '--kind', 'plugin', '--no-install'], { cwd, env })).code).toBe(0)
    const { peerDependencies, devDependencies } = readJSON(cwd, 'mine/package.json')
    expect(devDependencies.sluice).toMatch(/^file:\.\.\/\.\.\/packed\//)
    expect(peerDependencies.sluice).toBe(`^${manifest.version}`)
  })

  test('a folder without them is refused before anything is written', async () => {
    const { code, err, cwd } = await create(['mine', '--kind', 'app', '--packages', root])
    expect([code, err]).toEqual([2, expect.stringContaining('packages must be a folder with')])
    expect(readdirSync(cwd)).toEqual([])
  })
})

describe('the installation', () => {
  /** A program in the place of npm that writes what it was given, and ends with a code. */
  function fakeNpm(exitCode: number): Readonly<Record<string, string>> {
    const script = join(newFolder(), 'npm-cli.js')
    writeFileSync(
      script,
      `const { argv, env } = process
require('node:fs').writeFileSync('given.json', JSON.stringify({ args: argv.slice(2), env }))
process.exitCode = ${exitCode}`,
    )
    return { npm_execpath: script }
  }

  test('is run in the folder, without what the outer npm says of its own folder', async () => {
    const outer = { npm_config_local_prefix: '/outer', npm_package_name: 'outer', KEPT: 'kept' }
    const env = { ...fakeNpm(0), ...outer, npm_config_cache: '/cache' }
    const { code, out, cwd } = await create(['mine', '--kind', 'plugin'], { env })
    expect([code, out]).toEqual([0, 'wrote mine: 7 files\n\n  cd mine\n  npm test\n'])
    const given = readJSON(cwd, 'mine', 'given.json')
    expect(given.args).toEqual(['install'])
    expect(given.env).toMatchObject({ KEPT: 'kept', npm_config_cache: '/cache' })
    expect(Object.keys(given.env)).not.toContain('npm_config_local_prefix')
    expect(Object.keys(given.env)).not.toContain('npm_package_name')
  })

  test('that fails leaves the project, and says what is left to do', async () => {
    const { code, out, err } = await create(['mine', '--kind', 'app'], { env: fakeNpm(1) })
    expect(code).toBe(1)
    expect(err).toMatch(/npm install failed; the project is there/)
    expect(out).toMatch('\n  cd mine\n  npm install\n  npm test\n  npm start\n')
  })
})

test('--help has every kind and every option', async () => {
  const { code, out, cwd } = await create(['--help'])
  expect(code).toBe(0)
  for (const kind of Object.keys(kinds)) expect(out).toMatch(` ${kind} `)
  for (const option of ['--kind', '--no-install', '--packages', '--yes', '-y', '--help', '-h'])
    expect(out).toContain(option)
  expect(out.split('\n').filter(line => line.length > 100)).toEqual([])
  expect(readdirSync(cwd)).toEqual([])
})

test.each([
  [['--kind', 'zoo', 'mine'], 'kind must be one of app, plugin, decoder, store: "zoo"'],
  [['one', 'two', '--kind', 'app'], 'name must be one: one two'],
  [['--fast'], "Unknown option '--fast'"],
  [['--kind'], "Option '--kind <value>' argument missing"],
])('%j is a wrong argument', async (args, message) => {
  const { code, err, cwd } = await create(args)
  expect([code, err]).toEqual([2, `create-sluice: ${message}\n`])
  expect(readdirSync(cwd)).toEqual([])
})
