// Moves a plugin out of the package, as if a stranger had written it: its files and its tests are copied to where the package
// is installed, and import what they need from its public entries alone. It is compiled there, tested there, and takes the
// place of the plugin it was copied from in a stack.
import assert from 'node:assert/strict'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { root, run, runScript } from '../steps.mjs'
import { createPublicNames, relativeImports } from './public-names.mjs'

const listTypeScript = folder =>
  readdirSync(join(root, folder))
    .filter(file => file.endsWith('.ts'))
    .map(file => `${folder}/${file}`)

const plugin = listTypeScript('plugins/continuity')
const tests = ['test/support/plugins/continuity.ts', ...listTypeScript('test/plugins/continuity')]
const copied = [...plugin, ...tests]

/** What the author of a plugin imports from, the first preferred. */
const entries = {
  'sluice/core': 'core/index',
  'sluice/report': 'report/index',
  'sluice/client': 'client/index',
}

/** The compiler's settings for the plugin: strict, and with no types but those of a browser. */
const compilerOptions = {
  target: 'es2022',
  lib: ['es2023', 'dom', 'esnext.disposable'],
  types: [],
  module: 'nodenext',
  strict: true,
  exactOptionalPropertyTypes: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  skipLibCheck: false,
}

/** Replaces the relative imports of a file by those of public entries, unless they lead to a file that is copied, too. */
function createRewriter(installed) {
  const { exports } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'))
  function readDeclaration(file) {
    try {
      return readFileSync(join(installed, 'dist', 'cjs', `${file}.d.ts`), 'utf8')
    } catch (error) {
      // The package holds no declarations but those that its entries lead to.
      if (error.code === 'ENOENT') return undefined
      throw error
    }
  }
  const findPublic = createPublicNames(readDeclaration, entries)

  function findEntry(file, target, imported) {
    // Tests may use other plugins: each is an entry.
    const own = target.replace(/\/index$/, '')
    if (exports[`./${own}`] !== undefined) return { entry: `sluice/${own}`, name: imported.name }
    const found = findPublic(target, imported)
    const what = `${imported.name} of ${target}`
    assert.ok(found, `${file} imports ${what}, which no public entry exports`)
    return found
  }

  return function rewrite(file, text) {
    let rewritten = text
    for (const { start, end, keyword, target, names } of relativeImports(file, text).reverse()) {
      if (copied.includes(`${target}.ts`)) continue
      const lines = names.map(imported => {
        const { entry, name } = findEntry(file, target, imported)
        // A module that types are added to.
        if (keyword === '') return `'${entry}'`
        const renamed = name === imported.as ? name : `${name} as ${imported.as}`
        return `${keyword} ${imported.isType ? 'type ' : ''}{ ${renamed} } from '${entry}'`
      })
      rewritten = rewritten.slice(0, start) + lines.join('\n') + rewritten.slice(end)
    }
    return rewritten
  }
}

async function compile(folder) {
  const settings = { compilerOptions, files: ['plugins/continuity/index.ts'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(settings))
  await runScript('typescript/bin/tsc', ['-p', '.', '--pretty', 'false'], { cwd: folder })
}

/** Runs the tests with this repository's jest, which is nowhere above that folder. */
async function runTests(folder) {
  const config = {
    rootDir: folder,
    testRegex: ['\\.test\\.ts$'],
    transform: { '\\.(ts|js)$': join(root, 'test/support/jest/esbuild-transform.cjs') },
    moduleNameMapper: {
      '^(\\.{1,2}/.*)\\.js$': '$1',
      '^fast-check$': createRequire(import.meta.url).resolve('fast-check'),
    },
    // What the compiler made of the plugin, and not its sources.
    moduleFileExtensions: ['js', 'ts', 'json', 'node'],
    testTimeout: 60_000,
  }
  const args = ['--ci', '--config', JSON.stringify(config)]
  const { stderr } = await runScript('jest/bin/jest.js', args, { cwd: folder })
  return /^Tests: +(.+)$/m.exec(stderr)?.[1]
}

/** The checks, one after the other; `consumer` is where the package is installed. */
export async function checkOutside(consumer, checkGated) {
  const folder = join(consumer, 'outside')
  const installed = join(consumer, 'node_modules', 'sluice')
  const name = 'a copy of continuity, outside the package'
  let isCompiled = false
  await checkGated(`${name}: compiles against the public entries`, async () => {
    const rewrite = createRewriter(installed)
    for (const file of copied) {
      const path = join(folder, file)
      mkdirSync(dirname(path), { recursive: true })
      writeFileSync(path, rewrite(file, readFileSync(join(root, file), 'utf8')))
    }
    writeFileSync(join(folder, 'package.json'), '{ "private": true, "type": "module" }')
    await compile(folder)
    isCompiled = true
  })
  if (!isCompiled) return
  await Promise.all([
    checkGated(`${name}: passes the tests`, () => runTests(folder)),
    checkGated(`${name}: fills an outage in a stack of the package`, async () => {
      copyFileSync(join(root, 'test/package/outside/outage.mjs'), join(folder, 'outage.mjs'))
      const { stdout } = await run(process.execPath, ['outage.mjs'], { cwd: folder })
      return stdout.trim()
    }),
  ])
}
