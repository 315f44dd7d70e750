module.exports = {
  testMatch: ['**/jest.test.cjs'],
  transform: {},
  testEnvironment: '@sluice/engine/jest',
  testEnvironmentOptions: { engine: require('./options.cjs') },
}
