// Plants faults into a copy of the sources, one after the other, and says which test finds each: npm run planted, or
// npm run planted -- NAME … for some of them. By default the tests run that a fault names. With --whole, all of `npm test` runs
// for a fault that these do not find. Other options are jest's. Ends with 1 if a fault is not found, or a patch no longer applies.
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = join(here, '../..')
const jest = join(root, 'node_modules/jest/bin/jest.js')
/** No run of the named tests takes as long: a fault that hangs them counts as found. */
const LONGEST = 300_000

/**
 * Reads a patch. Above the diff it has a line that says what is broken, in the words of a user, and the line `found by: FILE, …`, with
 * ` (built)` at its end if these tests run built files. A third line may name the promise of the README that is broken.
 */
function readFault(file) {
  const [words, second = ''] = readFileSync(join(here, file), 'utf8').split('\n', 2)
  const [, files, isBuilt] = /^found by: (.+?)( \(built\))?$/.exec(second) ?? []
  if (files === undefined) throw new Error(`${file} has no line "found by: FILE"`)
  return {
    name: basename(file, '.patch'),
    file,
    words,
    files: files.split(', '),
    isBuilt: !!isBuilt,
  }
}

/** Makes a tree of the last commit, or a copy of the files where there is no git. */
function makeTree() {
  const tree = mkdtempSync(join(tmpdir(), 'planted-'))
  if (existsSync(join(root, '.git'))) run('git', ['worktree', 'add', '-q', '--detach', tree], root)
  else cpSync(root, tree, { recursive: true, filter: path => isSource(relative(root, path)) })
  for (const folder of [
    '',
    ...readdirSync(join(root, 'packages')).map(name => join('packages', name)),
  ])
    if (existsSync(join(root, folder, 'node_modules')))
      link(join(root, folder, 'node_modules'), join(tree, folder, 'node_modules'))
  return tree
}

const isSource = path => !/(^|[\\/])(node_modules|dist[^\\/]*|\.git)([\\/]|$)/.test(path)

/** Links packages. Those of the workspaces are linked by a relative path, and so are those of the tree. */
function link(from, to) {
  mkdirSync(to)
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    if (entry.name === '.cache') continue
    const [source, place] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isSymbolicLink()) symlinkSync(readlinkSync(source), place)
    else if (entry.name === '@sluice') link(source, place)
    else symlinkSync(source, place, entry.isDirectory() ? 'junction' : 'file')
  }
}

function removeTree(tree) {
  rmSync(tree, { recursive: true, force: true })
  if (existsSync(join(root, '.git'))) run('git', ['worktree', 'prune'], root)
}

/** Runs a program. Throws if it fails. */
function run(program, args, cwd) {
  const { status, stderr } = spawnSync(program, args, { cwd, encoding: 'utf8' })
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr.trim()}`)
}

const build = tree => run(process.execPath, ['build.mjs', '--if-needed'], tree)
const apply = (tree, file, ...options) =>
  run('git', ['apply', '-C1', ...options, join(here, file)], tree)

/**
 * Runs tests, all if no files are given. Returns the first test that fails, undefined if none does. Throws if a file does not run: a
 * fault that breaks the syntax proves nothing.
 */
function findFailure(tree, files, timeout) {
  const args = [jest, '--bail', '--forceExit', '--testTimeout=20000', ...options, ...files]
  const settings = { cwd: tree, encoding: 'utf8', timeout, maxBuffer: 2 ** 28 }
  const { status, error, stderr } = spawnSync(process.execPath, args, settings)
  if (error?.code === 'ETIMEDOUT') return 'no test: they hang'
  const [, file] = /^FAIL (\S+)/m.exec(stderr) ?? []
  const [, test] = /^ {2}● (.+)/m.exec(stderr) ?? []
  const isRun = !/^Test suite failed to run$|the file loads$/.test(test)
  if (file !== undefined && test !== undefined && isRun) return `${file}: ${test}`
  const missing = files.filter(each => !stderr.includes(` ${each}`))
  if (status !== 0 || missing.length > 0)
    throw new Error(`${file ?? missing} does not run: ${stderr.slice(0, 500)}`)
  return undefined
}

/** Plants a fault. Returns what a row of the table says of it. */
function plant(tree, { file, files, isBuilt }, isWhole) {
  apply(tree, file)
  try {
    if (isBuilt || isWhole) build(tree)
    const found = findFailure(tree, files, LONGEST)
    return found ?? (isWhole ? findFailure(tree, []) : undefined)
  } finally {
    apply(tree, file, '--reverse')
  }
}

const given = process.argv.slice(2)
const isWhole = given.includes('--whole')
const options = given.filter(each => each.startsWith('--') && each !== '--whole')
const names = given.filter(each => !each.startsWith('--')).map(each => basename(each, '.patch'))
const all = readdirSync(here).filter(file => file.endsWith('.patch'))
const faults = all.map(readFault).filter(({ name }) => names.length === 0 || names.includes(name))
for (const name of names)
  if (!all.includes(`${name}.patch`)) throw new Error(`there is no fault ${name}`)

let isFound = true
const tree = makeTree()
process.once('exit', () => removeTree(tree))
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => process.exit(130))
// Threads and processes of tests run built files.
build(tree)
const before = findFailure(tree, [...new Set(faults.flatMap(({ files }) => files))])
if (before !== undefined) throw new Error(`without a fault fails ${before}`)
for (const fault of faults) {
  const begun = performance.now()
  let row = 'NOT FOUND'
  try {
    const found = plant(tree, fault, isWhole)
    if (found !== undefined) row = `found by ${found}`
    else isFound = false
  } catch (error) {
    isFound = false
    row = `ERROR: ${error.message}`
  }
  const seconds = ((performance.now() - begun) / 1000).toFixed(1).padStart(6)
  console.log(`${seconds} s  ${fault.name.padEnd(36)}${row}\n          ${fault.words}`)
}
if (!isFound) process.exitCode = 1
