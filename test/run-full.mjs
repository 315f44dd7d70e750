// The full tier of the tests.
//
//   npm run test:full                        all of it, which takes hours
//   npm run test:full -- PATH …              the tests of these files, with their full counts
//   npm run test:full -- --part nats …       these parts of it
//   npm run test:full -- --share             a share of it, which turns with the commit
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { runJest } from './support/jest/run.mjs'

/** Tests of `npm test` whose inputs are random, or that count: they run with more of them. */
const counted = [
  'test/(fuzz|model|proof|report/decoder)/',
  'test/crypto/tdh2/reshare',
  'test/client/report-at',
  'test/plugins/confidential-http/secrets/secret-search',
  'test/wire/(consumption|continuity|killed|resumption)\\.test',
  'packages/cli/test/(everywhere|record)\\.test',
  'packages/confidential-http/test/runtime/blocking',
  'packages/confidential-http/test/vault/(chaos|killed|node)',
]
const counts = {
  CHAOS_SECONDS: 60,
  CONSUMPTION_SECONDS: 60,
  CONTINUITY_SECONDS: 300,
  CURSOR_KILLS: 60,
  DECODER_REPORTS: 10_000,
  FUZZ_INPUTS: 100_000,
  MODEL_RUNS: 10_000,
  REDACTION_RUNS: 2000,
  RESUMPTION_KILLS: 50,
  VAULT_KILLS: 60,
  WORLD_RUNS: 100_000,
}
/** The exit code of a part whose server or browser is missing, and can't be installed. In CI that is a failure. */
const UNAVAILABLE = 69
const FULL = '\\.full\\.test\\.ts$'
/** Tests of connections and messages, which run once more without the fast path. */
const NEAR =
  'test/(client|fuzz|model/(life|mute)|report/digits|wire/(flow-control|ha/|half-open|junk|stream/))'

const script = name => () => run('npm', ['run', '--silent', name])

/** The parts, each with what runs it. */
const parts = {
  tests: () => runFull([FULL, ...counted]),
  standard: () => runJest([NEAR], { FAST_PATH: 'off' }),
  nats: script('test:nats'),
  sinks: script('test:sinks'),
  operations: script('operations'),
  faults: script('faults'),
  browser: script('browser'),
  package: script('test:package'),
  hosts: script('hosts'),
  bundlers: script('bundlers'),
  runtimes: script('runtimes'),
  leaks: script('leaks'),
  planted: script('planted'),
}
/** The tests that take minutes each. They are in no share: a job runs them each day. */
const MINUTES =
  'test/(testing/(planted|found|plugins|worked)|vault/(holder-attack.*|model-worlds)|build/(publish|check-release)|crypto/native|projects|strategy|four-ways|(duckdb|parquet)-killed)\\.full'
/** What runs beside the tests of a share, one of these after the other. What is in no share takes more than five minutes. */
const shares = [['nats'], ['sinks', 'operations'], ['package'], ['browser', 'standard'], ['hosts']]

/** Runs tests in their full form. A variable of the user stands. */
const runFull = (paths, env = counts) => runJest(paths, { ...env, ...process.env, TEST_FULL: '1' })

/** Runs a program, and resolves with its exit code. */
async function run(program, args, stdio = 'inherit') {
  const [code] = await once(spawn(program, args, { stdio, shell: false }), 'exit')
  return code ?? 1
}

/** Runs parts one after the other. Resolves with those that failed. */
async function runParts(names) {
  const failed = []
  for (const name of names) {
    console.log(`\n── full: ${name}`)
    const code = await parts[name]()
    if (code === UNAVAILABLE && process.env.CI === undefined) console.log(`left out: ${name}`)
    else if (code !== 0) failed.push(name)
  }
  return failed
}

/** The share of this commit: half of the tests, and beside them its parts, which mostly wait. */
async function runShare() {
  const { stdout } = spawnSync('git', ['rev-list', '--count', 'HEAD'], { encoding: 'utf8' })
  const turn = Number(process.env.TEST_SHARE ?? stdout) % shares.length
  const names = shares[turn]
  console.log(`share ${turn} of ${shares.length}: half of the tests, and ${names.join(', ')}`)
  const folder = mkdtempSync(join(tmpdir(), 'sluice-share-'))
  const log = join(folder, 'log')
  const beside = run(
    process.execPath,
    [process.argv[1], ...names.flatMap(name => ['--part', name])],
    ['ignore', openSync(log, 'w'), openSync(log, 'a')],
  )
  const shard = `--shard=${(turn % 2) + 1}/2`
  const left = [
    '--testPathIgnorePatterns',
    '/node_modules/',
    '/templates/',
    '\\.(nats|servers)\\.',
    MINUTES,
  ]
  const failed = (await runFull([FULL, shard, ...left], {})) === 0 ? [] : ['tests']
  if ((await beside) !== 0) failed.push(...names)
  console.log(readFileSync(log, 'utf8'))
  rmSync(folder, { recursive: true })
  return failed
}

const { values, positionals } = parseArgs({
  options: { share: { type: 'boolean' }, part: { type: 'string', multiple: true, default: [] } },
  allowPositionals: true,
})
const unknown = values.part.filter(name => !Object.hasOwn(parts, name))
if (unknown.length > 0) {
  console.error(
    `test:full: no part ${unknown.join(', ')}; there are ${Object.keys(parts).join(', ')}`,
  )
  process.exitCode = 2
} else if (positionals.length > 0) {
  process.exitCode = await runFull(positionals)
} else {
  const wanted = values.part.length > 0 ? values.part : Object.keys(parts)
  const failed = values.share ? await runShare() : await runParts(wanted)
  if (failed.length > 0) console.error(`test:full: failed: ${failed.join(', ')}`)
  process.exitCode = failed.length > 0 ? 1 : 0
}
