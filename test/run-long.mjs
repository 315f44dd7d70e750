// The long form of the tests.
//
//   npm run test:long                        all of it
//   npm run test:long -- test/report/decoder   of these files
//   npm run test:long -- --share             a small part of it: the slow tests once
import { runJest } from './support/jest/run.mjs'

const given = process.argv.slice(2)
const isShare = given.includes('--share')
const files = given.filter(argument => argument !== '--share')

/** Where tests are random, or there are long ones. */
const suites = [
  '\\.long\\.test\\.ts$',
  'test/plugins/confidential-http/secrets/secret-search',
  'test/crypto/tdh2/reshare',
  // `npm test` has run these with fewer inputs.
  ...(isShare
    ? []
    : [
        'test/report/decoder/(differential|mutation)',
        'test/fuzz/',
        'test/model/',
        'test/wire/(consumption|continuity|killed|resumption)\\.test',
        'packages/cli/test/(everywhere|record)\\.test',
        'test/(client/report-at|proof/)',
        'packages/confidential-http/test/runtime/blocking',
        'packages/confidential-http/test/vault/(chaos|killed|node)',
      ]),
]
/** The longest ones, which change only with the test kit, the vault's resharing, the release, the replay and the stores, or whose subject another step runs. */
const notShared =
  'test/(testing/(planted|found|plugins|worked)|vault/(holder-attack.*|model-worlds)|build/(publish|check-release)|crypto/native|projects|strategy|four-ways|(duckdb|parquet)-killed)\\.long\\.test'
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

const left = [
  '/node_modules/',
  '/create-sluice/templates/',
  '\\.(nats|servers)\\.test\\.ts$',
  notShared,
]
process.exitCode = await runJest(
  [
    ...(files.length > 0 ? files : suites),
    ...(isShare ? ['--testPathIgnorePatterns', ...left] : []),
  ],
  // A variable of the user stands.
  { ...(isShare ? {} : counts), ...process.env, TEST_LONG: '1' },
)
