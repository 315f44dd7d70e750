// Bundles programs with each bundler, for Node and for the web, runs them against an engine in this process, and prints a table:
// npm run bundlers, or npm run bundlers -- NAME … for some of them. Needs the registry.
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { cpus, platform, tmpdir } from 'node:os'
import { basename, dirname, extname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { printTable } from '../bench/table.mjs'
import { startRelay } from '../browser/relay.mjs'
import { readRows } from '../faults/harness/rows.mjs'
import { pageBudgets, wasmBudget } from '../package/sizes.mjs'
import { createGate, install, npm, run } from '../package/steps.mjs'
import { pack } from '../package/tarball.mjs'
import { startWorld } from '../runtimes/world.mjs'
import { readArguments } from '../support/arguments.mjs'
import { NoChromium, openChromium } from '../support/chromium.mjs'
import { recordRows, updatePages } from '../support/results.mjs'
import { forms, notes } from './bundlers.mjs'
import { startGateway } from './gateway.mjs'
import { plant } from './planted.mjs'
import { programText, small, threadText } from './programs.mjs'

const here = dirname(fileURLToPath(import.meta.url))
const names = Object.keys(forms)
/** These leave out of a page what it does not use, as the documentation says; Parcel does so in part. */
const withBudget = ['esbuild', 'webpack', 'rspack', 'rollup', 'vite']
/** esbuild makes one file of a page, with libsecp256k1 in it. */
function budgetOf(bundler, imported) {
  if (!withBudget.includes(bundler)) return undefined
  const verifies = /verifyReport/.test(imported)
  return pageBudgets[imported] + (bundler === 'esbuild' && verifies ? wasmBudget : 0)
}
const started = performance.now()

const { positionals, values } = readArguments(process.argv.slice(2), {
  name: 'bundlers',
  usage: `npm run bundlers -- [NAME …], where NAME is of ${names.join(', ')}`,
  options: {
    warnings: [undefined, 'prints the text of each warning'],
    record: [undefined, 'writes the results, and the table in docs/records/bundlers.md'],
    keep: [undefined, 'leaves the temporary folder'],
  },
  check({ positionals }) {
    const unknown = positionals.find(name => !names.includes(name))
    return unknown && `there is no ${unknown}, but ${names.join(', ')}`
  },
})
const wanted = positionals.length > 0 ? positionals : names

const temp = realpathSync(mkdtempSync(join(tmpdir(), 'sluice-bundlers-')))
const clean = () => values.keep || rmSync(temp, { recursive: true, force: true, maxRetries: 5 })
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    clean()
    process.exit(1)
  })
}

function folder(...path) {
  const made = join(temp, ...path)
  mkdirSync(made, { recursive: true })
  return made
}

/** Installs the bundlers, where that was not done yet. */
async function installTools() {
  const done = join(here, 'node_modules', '.package-lock.json')
  const lock = join(here, 'package-lock.json')
  if (existsSync(done) && statSync(done).mtimeMs >= statSync(lock).mtimeMs) return
  console.log('bundlers: installs them')
  // By the lock file; `npm ci` would ask it for the binaries of every system, and some of them it has not.
  const flags = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  await npm(['install', ...flags], { cwd: here, timeout: 300_000 })
}

/** Installs the library and its packages as a user does: without secp256k1, and with it. */
async function installPackages() {
  const { tarballs } = await pack(folder('packed'))
  const plain = folder('plain')
  writeFileSync(join(plain, 'package.json'), '{ "private": true }')
  await install(plain, tarballs)
  const native = folder('native')
  cpSync(plain, native, { recursive: true, verbatimSymlinks: true })
  await install(native, ['secp256k1@5'])
  return { plain, native }
}

const isScript = file => /^\.[mc]?js$/.test(extname(file))
const filesIn = path =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter(each => each.isFile())
    .map(each => join(each.parentPath ?? each.path, each.name))

/** Which packages an import of the library may bring: its own dependencies, and theirs. */
function findExpected(modules) {
  const expected = new Set(['sluice'])
  for (const name of expected) {
    const path = join(modules, name, 'package.json')
    if (!existsSync(path)) continue
    for (const next of Object.keys(JSON.parse(readFileSync(path, 'utf8')).dependencies ?? {}))
      expected.add(next)
  }
  return expected
}

/** What no program here imports, of the library itself. */
const isStrange = /\/dist\/(?!.*\.js$)|\/dist\/.*\b(internal|confidential|stores|tdh2|prometheus)\b/

/** The modules in an output that are of a package which was not imported, and files that are no scripts. */
function findForeign(modules, files, expected) {
  const foreign = modules.flatMap(path => {
    const clean = path.replaceAll('\\', '/').replace(/[?\0].*$/, '')
    // A bundler has helpers of its own.
    if (clean.includes('/test/bundlers/node_modules/')) return []
    const [, name] = /.*\/?node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(clean) ?? []
    if (name === undefined) return []
    const isForeign = !expected.has(name) || (name === 'sluice' && isStrange.test(clean))
    return isForeign ? clean.replace(/.*node_modules\//, '') : []
  })
  // webpack moves licences into files of their own.
  const others = files.filter(file => !isScript(file) && !file.endsWith('.LICENSE.txt'))
  return [...new Set([...foreign, ...others.map(file => basename(file))])]
}

/** The bytes of files, and what is left of them when each is gzipped. */
function weigh(files) {
  const texts = files.map(file => readFileSync(file))
  const sum = sizes => sizes.reduce((total, size) => total + size, 0)
  return {
    bytes: sum(texts.map(({ byteLength }) => byteLength)),
    gzipped: sum(texts.map(text => gzipSync(text, { level: 9 }).byteLength)),
  }
}

/** The program, and what it imports when it is loaded: not what it may load later. */
function findAtOnce(scripts) {
  const reached = new Set(scripts.filter(isProgram))
  for (const file of reached)
    for (const [, path] of readFileSync(file, 'utf8').matchAll(
      /\b(?:from|import)\s*["'](\.\/[^"']+)["']/g,
    )) {
      const next = join(dirname(file), path)
      if (scripts.includes(next)) reached.add(next)
    }
  return [...reached]
}

const typeOf = { esm: 'module', cjs: 'commonjs' }
let count = 0

/**
 * Bundles the programs of a row, by their texts, in a process of its own. Returns what came of it; the output is in `out`, which has no packages
 * above it unless the row needs one at run time.
 */
async function bundle(row, texts, installed, expected) {
  const id = `${++count}-${row.bundler}`
  const user = row.isNative ? installed.native : installed.plain
  const source = join(user, 'rows', id)
  mkdirSync(source, { recursive: true })
  const type = row.source === row.output ? { type: typeOf[row.source] } : {}
  writeFileSync(join(source, 'package.json'), JSON.stringify({ private: true, ...type }))
  const entries = Object.entries(texts).map(([name, text]) => {
    const path = join(source, `${name}.js`)
    writeFileSync(path, text)
    return path
  })
  const out = row.isNative ? join(source, 'out', 'dist') : join(folder('out', id), 'dist')
  mkdirSync(out, { recursive: true })
  const began = performance.now()
  const argument = JSON.stringify({ ...row, entries, out })
  const done = await run(process.execPath, [join(here, 'bundlers.mjs'), argument], {
    cwd: source,
    timeout: 180_000,
  }).catch(error => ({ stderr: error.message }))
  const told = join(out, '..', 'result.json')
  const { error, warnings, modules } = existsSync(told)
    ? JSON.parse(readFileSync(told, 'utf8'))
    : { error: `the bundler has ended without a result\n${done.stderr}`, warnings: [], modules: [] }
  const files = filesIn(out)
  const scripts = files.filter(isScript)
  const result = {
    error,
    warnings,
    out,
    files: files.length,
    ...weigh(scripts),
    atOnce: error === undefined ? weigh(findAtOnce(scripts)).gzipped : 0,
    foreign: findForeign(modules, files, expected),
    seconds: (performance.now() - began) / 1000,
  }
  writeFileSync(join(out, 'package.json'), JSON.stringify({ type: typeOf[row.output] }))
  return result
}

const stepsOf = {
  node: ['decode', 'verify', 'rest', 'ha', 'gateway'],
  web: ['decode', 'verify', 'rest', 'stream', 'gateway'],
}
/** The texts of a row's programs. A thread's is there wherever the program names it, and an entry where the bundler needs that. */
function textsOf(row, steps) {
  const program = programText({ ...row, steps })
  return row.worker === undefined ? { program } : { program, thread: threadText(row.source) }
}

const isProgram = file => /^program\.[mc]?js$/.test(basename(file))
const mainOf = ({ out }) => filesIn(out).find(isProgram)

/** Runs a program of Node to its end, and returns the results of its steps by their names. */
async function runProgram(file, url, steps, { command = process.execPath, args = [] } = {}) {
  const results = new Map()
  const cwd = folder('cwd')
  const began = performance.now()
  let failure
  let said = ''
  try {
    const { stdout, stderr } = await run(command, [...args, file, url, `${steps}`], {
      cwd,
      timeout: 120_000,
    })
    said = `${stdout}${stderr}`
  } catch (error) {
    said = error.message
    failure = error
  }
  for (const line of said.split('\n').filter(each => each.startsWith('{"name"'))) {
    const result = JSON.parse(line)
    results.set(result.name, result)
  }
  const seconds = ((performance.now() - began) / 1000).toFixed(1)
  for (const name of steps) {
    if (results.has(name)) continue
    const error = `the program ended after ${seconds} s: ${failure?.message ?? 'without a word'}`
    results.set(name, { name, ms: 0, error })
  }
  if (failure !== undefined && results.size === steps.length)
    results.set('end', { name: 'end', ms: 0, error: failure.message.slice(-2000) })
  return results
}

/** Opens a page in Chromium that loads each bundle in a frame, one after the other. */
async function runPages(rows, relay, pages) {
  pages.script = `
const names = ${JSON.stringify(rows.map(row => row.page))}
for (const name of names) {
  const results = []
  const frame = document.createElement('iframe')
  frame.src = '/' + name + '/index.html'
  const isOver = new Promise(resolve => {
    const note = ({ data }) => (data.name === 'end' ? resolve() : results.push(data))
    window.onmessage = note
    setTimeout(resolve, 90000)
  })
  document.body.append(frame)
  await isOver
  frame.remove()
  await fetch('/results', { method: 'POST', body: JSON.stringify({ name, results }) })
}
await fetch('/results', { method: 'POST', body: '{}' })
`
  const isFinished = new Promise(resolve => {
    pages.receive = ({ name, results }) => {
      if (name === undefined) return resolve()
      const row = rows.find(({ page }) => page === name)
      row.results = new Map(results.map(result => [result.name, result]))
      for (const step of row.steps)
        if (!row.results.has(step)) {
          const { error = 'the page has not told' } = row.results.get('load') ?? {}
          row.results.set(step, { name: step, ms: 0, error })
        }
    }
  })
  const chromium = openChromium(`${relay.facts.endpoint}/`)
  try {
    await Promise.race([isFinished, chromium.ended])
  } finally {
    await chromium.close()
  }
}

const frame = isModule => `<!doctype html><meta charset="utf-8"><title>sluice</title>
<script>
const fail = text => {
  parent.postMessage({ name: 'load', error: text })
}
addEventListener('error', ({ message, error }) => fail(String(error?.stack ?? message ?? 'a script did not load')), true)
addEventListener('unhandledrejection', ({ reason }) => fail(String(reason?.stack ?? reason)))
</script>
<script ${isModule ? 'type="module"' : ''} src="./program.js"></script>`

/** Answers for the page and the frames: the files of the bundles, the facts, and the results. */
function createPages() {
  const pages = { rows: new Map(), script: '', receive: () => undefined, facts: undefined }
  pages.answer = async (request, response) => {
    const { pathname } = new URL(request.url, 'http://page')
    const send = (type, text) => response.setHeader('Content-Type', type).end(text)
    if (pathname === '/')
      return send(
        'text/html',
        `<!doctype html><body><script type="module">${pages.script}</script>`,
      )
    if (pathname === '/facts') return send('application/json', JSON.stringify(pages.facts))
    if (pathname === '/results') {
      let body = ''
      for await (const chunk of request) body += chunk
      pages.receive(JSON.parse(body))
      return response.end()
    }
    const [, page, ...rest] = pathname.split('/')
    const row = pages.rows.get(page)
    if (row !== undefined && rest.join('/') === 'index.html')
      return send('text/html', frame(row.output === 'esm'))
    const path = row && join(row.made.out, ...rest)
    if (path === undefined || !existsSync(path)) return response.writeHead(404).end()
    return send('text/javascript', readFileSync(path))
  }
  return pages
}

const cellOf = result => {
  if (result === undefined) return '–'
  if (result.error !== undefined) return 'FAILED'
  return result.remark ?? 'ok'
}
const titles = ['decode', 'verify', 'rest', 'stream', 'ha', 'gateway', 'loading']
const kB = bytes => (bytes / 1000).toFixed(1)

/** All that is wrong with a row, a line or more each. */
function findMisses({ made, results, budget, isNative, planted = [] }) {
  const misses = []
  if (made.error !== undefined) misses.push(`not bundled: ${made.error}`)
  if (made.foreign.length > 0)
    misses.push(`it holds ${made.foreign.length} files of what was not imported: ${made.foreign}`)
  for (const { name, ms, error } of results?.values() ?? [])
    if (error !== undefined) misses.push(`${name}, after ${(ms / 1000).toFixed(1)} s: ${error}`)
  const verified = results?.get('verify')
  if (isNative && verified?.error === undefined && !/native/.test(verified?.remark))
    misses.push('secp256k1 is installed, and another library verifies')
  if (budget !== undefined && made.atOnce > budget)
    misses.push(`${made.atOnce} bytes gzipped at once, of at most ${budget}`)
  return [...misses, ...planted]
}

/** The same, where a form that can't work has to fail. */
function findProblems(row) {
  const misses = findMisses(row)
  if (row.unsupported === undefined) return misses
  return misses.length > 0 ? [] : [`it works, and bundlers.mjs says: ${row.unsupported}`]
}

async function main() {
  await installTools()
  const installed = await installPackages()
  const expected = findExpected(join(installed.plain, 'node_modules'))
  const gate = createGate(2)
  const world = await startWorld()
  const pages = createPages()
  const relay = await startRelay(pages.answer)
  let gateway
  try {
    const asked = await fetch(world.url, { method: 'POST', body: '{"command":"facts"}' })
    const facts = await asked.json()
    gateway = await startGateway(facts.single, facts.feeds)
    pages.facts = { ...facts, relay: relay.facts, gateway: gateway?.facts, token: gateway?.token }
    const without = gateway === undefined ? ['gateway'] : []
    const url = `${relay.facts.endpoint}/facts`

    const rows = wanted.flatMap(bundler =>
      forms[bundler].map(form => ({
        bundler,
        ...form,
        steps: (form.steps ?? stepsOf[form.target]).filter(step => !without.includes(step)),
      })),
    )
    await Promise.all(
      rows.map(row =>
        gate(async () => {
          row.made = await bundle(row, textsOf(row, row.steps), installed, expected)
          if (row.made.error === undefined && row.target === 'node') {
            row.results = await runProgram(mainOf(row.made), url, row.steps)
            if (isWatched(row)) row.planted = await runAmongPlanted(row, url)
          }
          console.log(`bundlers: ${nameOf(row)}, ${row.made.seconds.toFixed(1)} s`)
        }),
      ),
    )
    const inPages = rows.filter(({ target, made }) => target === 'web' && made.error === undefined)
    for (const [at, row] of inPages.entries()) {
      row.page = `page${at}`
      pages.rows.set(row.page, row)
    }
    const omitted = without.map(() => 'gateway: there is no nats-server')
    try {
      await runPages(inPages, relay, pages)
    } catch (error) {
      if (!(error instanceof NoChromium)) throw error
      omitted.push('the steps in pages: there is no Chromium')
    }
    const sizes = await Promise.all(
      wanted.flatMap(bundler =>
        Object.entries(small).map(([imported, text]) =>
          gate(async () => {
            const form = forms[bundler].findLast(
              ({ target, source, isOneFile }) => target === 'web' && source === 'esm' && !isOneFile,
            )
            const { worker, settings, ...row } = { bundler, ...form }
            return {
              ...row,
              name: imported,
              budget: budgetOf(bundler, imported),
              made: await bundle(row, { program: text }, installed, expected),
            }
          }),
        ),
      ),
    )
    report(rows, sizes, omitted)
    if (values.record) {
      record(rows, sizes)
      console.log(`recorded, in ${updatePages(await readRows()).join(', ')}`)
    }
  } finally {
    await gateway?.close()
    await relay.close()
    await world.close()
  }
}

/** A bundle that was handed no thread, and has all that it needs, is run among planted files. */
const isWatched = ({ worker, isNative, isAwaited, isBroken }) =>
  !(worker || isNative || isAwaited || isBroken)

const nameOf = ({ bundler, target, name }) => `${bundler} ${target} ${name}`

/** Runs a bundle at two depths, with a file planted wherever it could look; returns what is wrong, as texts. */
async function runAmongPlanted({ made }, url) {
  const steps = ['verify', 'rest']
  const problems = []
  for (const depth of ['dist', 'a/b/c/dist']) {
    const top = folder('planted', `${basename(dirname(made.out))}-${depth.split('/').length}`)
    const place = join(top, depth)
    cpSync(made.out, place, { recursive: true })
    const main = join(place, basename(mainOf(made)))
    const watch = await plant(join(temp, 'plain', 'node_modules', 'sluice', 'dist'), top, place)
    const results = await runProgram(main, url, steps, watch.wrap(main))
    for (const { name, error } of results.values())
      if (error !== undefined) problems.push(`at ${depth}, ${name}: ${error}`)
    problems.push(...watch.findOpened(main).map(text => `at ${depth}: ${text}`))
  }
  return problems
}

function report(rows, sizes, omitted) {
  const countOf = ({ length }) => (length === 0 ? 'none' : length)
  console.log()
  printTable(
    'bundle',
    [...titles, 'planted', 'kB', 'gzipped', 'files', 'warnings', 'foreign'],
    rows.map(({ made, steps, results, planted, ...row }) => [
      nameOf(row),
      ...titles.map(step => {
        if (!steps.includes(step)) return '–'
        return made.error === undefined ? cellOf(results?.get(step)) : 'FAILED'
      }),
      planted === undefined ? '–' : planted.length === 0 ? 'unopened' : 'FAILED',
      ...[kB(made.bytes), kB(made.gzipped), made.files, made.warnings.length],
      countOf(made.foreign),
    ]),
  )
  printTable(
    'page of',
    ['bytes', 'gzipped', 'at once', 'budget', 'files', 'warnings', 'foreign'],
    sizes.map(({ bundler, name, budget, made }) => [
      `${bundler}: ${name}`,
      ...[made.bytes, made.gzipped, made.atOnce, budget ?? '–', made.files, made.warnings.length],
      countOf(made.foreign),
    ]),
  )
  const all = [...rows, ...sizes]
  for (const row of all) {
    if (values.warnings)
      for (const text of row.made.warnings) console.log(`${nameOf(row)} warns:\n${indent(text)}`)
    for (const problem of findProblems(row)) {
      process.exitCode = 1
      console.log(`${nameOf(row)}:\n${indent(problem)}\n`)
    }
  }
  for (const row of rows)
    if (row.unsupported !== undefined)
      console.log(`${nameOf(row)} is not supported: ${row.unsupported}`)
  for (const name of wanted) if (name in notes) console.log(`${name} ${notes[name]}`)
  const failed = all.filter(row => findProblems(row).length > 0).length
  const seconds = ((performance.now() - started) / 1000).toFixed()
  const left = omitted.length > 0 ? `; left out: ${omitted.join('; ')}` : ''
  console.log(`bundlers: ${failed} of ${all.length} bundles failed, in ${seconds} s${left}`)
}

const indent = text => text.slice(0, 3000).replace(/^/gm, '    ')

/** What a row has shown, for the table in the documentation. */
function record(rows, sizes) {
  const [{ model }] = cpus()
  const machine = `${cpus().length} × ${model.trim()}, ${platform()}, Node ${process.version}`
  const place = ({ bundler }) => names.indexOf(bundler)
  recordRows('bundlers', {
    run: machine,
    rows: [
      ...rows
        .filter(({ isBroken }) => !isBroken)
        .map(({ bundler, target, name, settings, made, results, planted }) => ({
          ...{ bundler, target, name, settings },
          steps: Object.fromEntries(
            titles.flatMap(step => {
              const result = results?.get(step)
              return result === undefined ? [] : [[step, cellOf(result)]]
            }),
          ),
          ...(planted && { planted: planted.length === 0 }),
          ...{ isMade: made.error === undefined, bytes: made.bytes, gzipped: made.gzipped },
          ...{ files: made.files, warnings: made.warnings.length, foreign: made.foreign.length },
        })),
      ...sizes.map(({ bundler, name, made }) => ({
        ...{ bundler, target: 'size', name },
        ...{ bytes: made.bytes, gzipped: made.gzipped, atOnce: made.atOnce, files: made.files },
      })),
    ],
    keyOf: ({ bundler, target, name }) => `${bundler} ${target} ${name}`,
    order: (one, other) => place(one) - place(other),
    replaces: ({ bundler }) => wanted.includes(bundler),
  })
}

try {
  await main()
} finally {
  clean()
  if (values.keep) console.log(`kept: ${temp}`)
}
