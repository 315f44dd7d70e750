// Puts the packed library where users put it, and shows what works there: npm run hosts, or npm run hosts -- NAME … for
// some hosts. The tools are no dependencies of the library: they are installed in this folder when it is needed.
import { spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { printTable } from '../bench/table.mjs'
import { install, npm, root } from '../package/steps.mjs'
import { pack } from '../package/tarball.mjs'
import { readArguments } from '../support/arguments.mjs'
import { recordRows } from '../support/results.mjs'
import * as next from './next.mjs'
import * as runners from './runners.mjs'
import * as servers from './servers.mjs'
import { startService } from './service.mjs'
import * as workerd from './workerd.mjs'

const here = join(root, 'test', 'hosts')
const hosts = { ...workerd.hosts, ...runners.hosts, ...servers.hosts, ...next.hosts }
const names = Object.keys(hosts)
/** The others take too long for each pull request. */
const shared = names.filter(name => !['nest', 'lambda', 'next'].includes(name))

const { positionals, values } = readArguments(process.argv.slice(2), {
  name: 'hosts',
  usage: `npm run hosts -- [NAME …], where NAME is of ${names.join(', ')}`,
  options: {
    share: [undefined, `runs ${shared.join(', ')}: what a pull request runs`],
    record: [undefined, 'writes docs/results/hosts.json'],
    keep: [undefined, 'keeps the folder that the programs run in'],
    in: ['FOLDER', 'runs in a folder that was kept, with the library that is there'],
  },
  check({ positionals }) {
    const unknown = positionals.find(name => !names.includes(name))
    return unknown && `there is no ${unknown}, but ${names.join(', ')}`
  },
})
const wanted = positionals.length > 0 ? positionals : values.share ? shared : names

/** Installs the tools, unless those of this lock file are there. */
async function installTools() {
  const lock = readFileSync(join(here, 'package-lock.json'), 'utf8')
  const mark = join(here, 'node_modules', '.lock')
  if (existsSync(mark) && readFileSync(mark, 'utf8') === lock) return
  console.log('hosts: installs the tools')
  // By the lock file; `npm ci` would ask it for the binaries of every system, and some of them it has not.
  const flags = ['--no-save', '--no-audit', '--no-fund', '--loglevel=error']
  await npm(['install', ...flags], { cwd: here, timeout: 300_000 })
  writeFileSync(mark, lock)
}

/** The programs of docs/records/hosts.md, each with its name in its first line, with the service's URLs for those of the real one. */
function writeDocumented(folder) {
  const text = readFileSync(join(root, 'docs', 'records', 'hosts.md'), 'utf8')
  mkdirSync(folder, { recursive: true })
  for (const [, name, code] of text.matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)) {
    const env = code.includes("'cloudflare:workers'") ? 'env' : 'process.env'
    const local = `...{ endpoint: ${env}.ENDPOINT, wsEndpoint: ${env}.WS_ENDPOINT }`
    writeFileSync(join(folder, name), code.replace('...endpoints.testnet', local))
  }
}

function copyPrograms(folder) {
  cpSync(join(here, 'programs'), join(folder, 'programs'), { recursive: true })
  writeDocumented(join(folder, 'programs', 'docs'))
}

/** A folder with the tools and the packed library, installed as a user would. */
async function makeFolder() {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-hosts-'))
  const packed = join(folder, 'packed')
  mkdirSync(packed)
  // Hard links, where the file system has them: the tools have many files.
  const links = spawnSync('cp', ['-al', join(here, 'node_modules'), folder])
  if (links.status !== 0) {
    rmSync(join(folder, 'node_modules'), { recursive: true, force: true })
    cpSync(join(here, 'node_modules'), join(folder, 'node_modules'), {
      recursive: true,
      verbatimSymlinks: true,
    })
  }
  cpSync(join(here, 'package.json'), join(folder, 'package.json'))
  copyPrograms(folder)
  const { tarball, all } = await pack(packed)
  const engine = all.find(({ name }) => name === '@sluice/engine')
  await install(folder, ['--no-save', tarball, engine.tarball])
  return folder
}

/** Of an error: stacks are long, and begin with what is wrong. */
const ERROR_LINES = 12

/** The package that a host is, where its name is another. */
const packages = { nest: '@nestjs/core' }

function versionOf(host) {
  const manifest = join(here, 'node_modules', packages[host] ?? host, 'package.json')
  // Those of Node have its version, which stands above the table.
  return existsSync(manifest) ? JSON.parse(readFileSync(manifest, 'utf8')).version : ''
}

const rows = []
const resultOf = ({ error }) => (error === undefined ? 'ok' : 'fails')

/** Runs a step of a host, and notes how it went, and how the official SDK did where that has the same step. */
async function runStep(host, name, task, known = {}) {
  const started = performance.now()
  let error
  let remark = ''
  try {
    remark = (await task()) ?? ''
  } catch (thrown) {
    error = String(thrown?.message ?? thrown)
      .split('\n', ERROR_LINES)
      .join('\n')
  }
  const { official } = known
  const ms = Math.round(known.ms ?? performance.now() - started)
  rows.push({ host, step: name, ms, error, official: official && resultOf(official) })
  const result = error === undefined ? 'ok   ' : 'ERROR'
  console.log(`  ${result}  ${host}: ${name}  (${ms} ms)  ${remark}`)
  if (error !== undefined) console.log(error.replace(/^/gm, '           '))
  if (official?.error !== undefined)
    console.log(`           the official SDK: ${official.error.split('\n', 1)}`)
}

async function findFolder() {
  if (values.in === undefined) return makeFolder()
  copyPrograms(values.in)
  return values.in
}

await installTools()
const folder = await findFolder()
const isKept = values.keep || values.in !== undefined
if (isKept) console.log(`hosts: the programs are in ${folder}`)
try {
  const require = createRequire(join(folder, 'package.json'))
  /** Loads a tool. */
  const load = async name => {
    const module = await import(pathToFileURL(require.resolve(name)))
    return module.default ?? module
  }
  for (const name of wanted) {
    const service = await startService()
    try {
      await hosts[name]({ folder, load, service, isShare: values.share === true }, (...step) =>
        runStep(name, ...step),
      )
    } finally {
      await service.close()
    }
  }
} finally {
  if (!isKept) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}

console.log()
printTable(
  'host',
  ['step', 'result', 'official SDK', 'ms'],
  rows.map(row => [row.host, row.step, resultOf(row), row.official ?? '', row.ms]),
)
if (values.record) {
  const run = `${cpus().length} × ${cpus()[0]?.model.trim()}, ${process.platform}, Node ${process.version}`
  recordRows('hosts', {
    run,
    rows: rows.map(({ ms, error, ...row }) => ({
      ...row,
      version: versionOf(row.host),
      result: resultOf({ error }),
    })),
    keyOf: ({ host, step }) => `${host}: ${step}`,
    order: ({ host: one }, { host: other }) => names.indexOf(one) - names.indexOf(other),
    // A step that is no more.
    replaces: ({ host }) => wanted.includes(host),
  })
}
const failed = rows.filter(({ error }) => error !== undefined)
if (failed.length > 0) process.exitCode = 1
// Once more at the end, which is all that some logs keep.
for (const { host, step, error } of failed) console.log(`${host}: ${step}\n${error}`)
console.log(
  failed.length > 0
    ? `hosts: ${failed.length} of ${rows.length} steps failed`
    : `hosts: all ${rows.length} steps passed`,
)
