const isLong = process.env.TEST_LONG === '1'
const hasNats = process.env.TEST_NATS === '1'

const common = {
  testEnvironment: 'node',
  // A lookup of Math in the realm of a test is slow: X25519 took 40 times as long.
  sandboxInjectedGlobals: ['Math'],
  transform: { '\\.(ts|js|mjs)$': '<rootDir>/test/support/jest/esbuild-transform.cjs' },
  transformIgnorePatterns: ['/node_modules/(?!ky/|hyparquet)'],
  moduleNameMapper: {
    // Threads run the built files: they have no transform.
    '/thread-file\\.js$': '<rootDir>/test/support/jest/thread-file.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  modulePathIgnorePatterns: ['<rootDir>/dist'],
  // Run by `npm run test:long`.
  testPathIgnorePatterns: [
    '/node_modules/',
    ...(isLong ? [] : ['\\.long\\.test\\.ts$']),
    // Run by `npm run test:nats`.
    ...(hasNats ? [] : ['\\.nats\\.test\\.ts$']),
  ],
}

/** Folders whose tests wait for sockets and processes more than they compute. */
const waiting = '(cli|confidential-http|gateway|local|nats|support|wire)/'

/** The projects run one after the other, each with its own workers. */
module.exports = {
  // By default jest leaves one core idle: half of a machine with two.
  maxWorkers: '100%',
  // One timeout for all: jest ignores that of a project.
  testTimeout: isLong || hasNats ? 60_000 : 20_000,
  projects: [
    {
      ...common,
      displayName: 'computing',
      testRegex: [`/test/(?!${waiting}).*\\.test\\.ts$`],
    },
    {
      ...common,
      displayName: 'waiting',
      testRegex: [`/test/(${waiting}).*\\.test\\.ts$`],
      runner: '<rootDir>/test/support/jest/waiting-runner.cjs',
    },
  ],
}
