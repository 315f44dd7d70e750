const isLong = process.env.TEST_LONG === '1'
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

const root = __dirname.replaceAll('\\', '/').replace(/[$()*+.?[\\\]^{|}]/g, '\\$&')

const common = {
  testEnvironment: 'node',
  // A lookup of Math in the realm of a test is slow: X25519 took 40 times as long.
  sandboxInjectedGlobals: ['Math'],
  transform: { '\\.(ts|js|mjs)$': '<rootDir>/test/support/jest/esbuild-transform.cjs' },
  transformIgnorePatterns: ['/node_modules/(?!@bitauth/|@platformatic/|ky/|hyparquet|jose/)'],
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
    // Tests that look behind an entry, or stand in for a module behind it.
    '^@sluice/source/(.*?)(\\.js)?$': '<rootDir>/$1',
    '^@sluice/test-support/(.*?)(\\.js)?$': '<rootDir>/test/support/$1',
    '^@sluice/([\\w-]+)$': '<rootDir>/packages/$1/index.ts',
    '^@sluice/(.*)$': '<rootDir>/packages/$1/index.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  modulePathIgnorePatterns: ['/dist/'],
  // Run by `npm run test:long`.
  testPathIgnorePatterns: [
    '/node_modules/',
    // Run in the projects that are made of them.
    '/create-sluice/templates/',
    ...(isLong ? [] : ['\\.long\\.test\\.ts$']),
    // Run by `npm run test:nats`.
    ...(hasNats ? [] : ['\\.nats\\.test\\.ts$']),
    // Run by `npm run test:sinks`.
    ...(hasServers ? [] : ['\\.servers\\.test\\.ts$']),
  ],
}

/** The projects run one after the other, each with its own workers. */
module.exports = {
  // By default jest leaves one core idle: half of a machine with two.
  maxWorkers: '100%',
  // One timeout for all: jest ignores that of a project.
  testTimeout: isLong || hasNats || hasServers ? 60_000 : 20_000,
  projects: [
    {
      ...common,
      displayName: 'computing',
      testRegex: `^${root}/test/(?!support/|testing/|wire/|(build|docs|faults)/.*\\.long\\.).*\\.test\\.ts$`,
    },
    {
      ...common,
      displayName: 'waiting',
      testRegex: [
        `^${root}/(packages|test/(support|testing|wire))/.*\\.test\\.ts$`,
        // They wait for programs.
        `^${root}/test/(build|docs|faults)/.*\\.long\\.test\\.ts$`,
      ],
      runner: '<rootDir>/test/support/jest/waiting-runner.cjs',
    },
  ],
}
