const isFull = process.env.TEST_FULL === '1'
const hasNats = process.env.TEST_NATS === '1'
const hasServers = process.env.TEST_SINKS === '1'
/** The standard path only: the fast path is left out. */
const withoutFastPath =
  process.env.FAST_PATH === 'off'
    ? {
        '^(?:\\.{1,2}/)+(?:client/)?fast/index\\.js$':
          '<rootDir>/test/support/fast-path/no-fast-path.ts',
        '^\\./simd\\.js$': '<rootDir>/test/support/fast-path/no-simd.ts',
      }
    : {}

module.exports = {
  // By default jest leaves one core idle: half of a machine with two.
  maxWorkers: '100%',
  // No test ends by this limit unless it hangs: it is ten times what the slowest needs alone.
  testTimeout: isFull ? 300_000 : 60_000,
  testEnvironment: '<rootDir>/test/support/jest/environment.cjs',
  runtime: '<rootDir>/test/support/jest/runtime.cjs',
  runner: '<rootDir>/test/support/jest/joined-runner.cjs',
  // A lookup of Math in the realm of a test is slow: X25519 took 40 times as long.
  sandboxInjectedGlobals: ['Math'],
  transform: { '\\.(ts|js|mjs)$': '<rootDir>/test/support/jest/esbuild-transform.cjs' },
  transformIgnorePatterns: [
    '/node_modules/(?!@bitauth/|@jitl/|@platformatic/|ky/|hyparquet|jose/)',
  ],
  // Entries are their sources, so that a test has one library.
  moduleNameMapper: {
    ...withoutFastPath,
    '^(@?sluice.*/package\\.json)$': '$1',
    '^sluice$': '<rootDir>/index.ts',
    '^sluice/stores$': '<rootDir>/client/stores/index.ts',
    '^sluice/tdh2$': '<rootDir>/crypto/tdh2/index.ts',
    '^sluice/solana$': '<rootDir>/report/solana.ts',
    '^sluice/beta$': '<rootDir>/client/beta.ts',
    '^sluice/(.*)$': '<rootDir>/$1',
    '^fast-check$': '<rootDir>/test/support/fast-check.cjs',
    // Tests that look behind an entry, or stand in for a module behind it.
    '^@sluice/source/(.*?)(\\.js)?$': '<rootDir>/$1',
    '^@sluice/test-support/(.*?)(\\.js)?$': '<rootDir>/test/support/$1',
    '^@sluice/([\\w-]+)$': '<rootDir>/packages/$1/index.ts',
    '^@sluice/(.*)$': '<rootDir>/packages/$1/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  modulePathIgnorePatterns: ['/dist/'],
  // A test's tier is its suffix: docs/reference/development.md.
  testRegex: '\\.test\\.ts$',
  testPathIgnorePatterns: [
    '/node_modules/',
    // Run in the projects that are made of them.
    '/create-sluice/templates/',
    // Files in which something is wrong, for the test of the runner.
    ...(process.env.TEST_FIXTURES === '1' ? [] : ['/jest/fixtures/']),
    ...(isFull ? [] : ['\\.full\\.test\\.ts$']),
    ...(hasNats ? [] : ['\\.nats\\.test\\.ts$']),
    ...(hasServers ? [] : ['\\.servers\\.test\\.ts$']),
  ],
}
