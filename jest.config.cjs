const isLong = process.env.TEST_LONG === '1'

const common = {
  testEnvironment: 'node',
  // Looked up in the realm of a test it is slow: X25519 took 40 times as long.
  sandboxInjectedGlobals: ['Math'],
  transform: { '\\.(ts|js|mjs)$': '<rootDir>/test/support/jest/esbuild-transform.cjs' },
  transformIgnorePatterns: ['/node_modules/(?!ky/)'],
  moduleNameMapper: {
    // Threads run what is built: they have no transform.
    '/thread-file\\.js$': '<rootDir>/test/support/jest/thread-file.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  modulePathIgnorePatterns: ['<rootDir>/dist'],
  // Run by `npm run test:long`.
  testPathIgnorePatterns: ['/node_modules/', ...(isLong ? [] : ['\\.long\\.test\\.ts$'])],
}

/** Whose tests wait for sockets and processes more than they compute. */
const waiting = '(cli|confidential-http|local|support|wire)/'

/** A project runs after the other, each with workers of its own. */
module.exports = {
  // jest leaves one core idle, which on two is half the time.
  maxWorkers: '100%',
  // One for all: that of a project is not looked at.
  testTimeout: isLong ? 60_000 : 20_000,
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
