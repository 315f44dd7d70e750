module.exports = {
  testEnvironment: 'node',
  testMatch: ['<rootDir>/test/**/*.test.ts'],
  transform: { '\\.(ts|js|mjs)$': '<rootDir>/test/esbuild-transform.cjs' },
  transformIgnorePatterns: ['/node_modules/(?!ky/)'],
  moduleNameMapper: {
    // Threads run what is built: they have no transform.
    '/thread-file\\.js$': '<rootDir>/test/thread-file.ts',
    '^(\\.{1,2}/.*)\\.js$': '$1',
  },
  modulePathIgnorePatterns: ['<rootDir>/dist'],
  testTimeout: 20_000,
  // jest leaves one core idle, which on two is half the time.
  maxWorkers: '100%',
}
