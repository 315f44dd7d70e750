// Runs the tests that wait for sockets: so many at a time that the cores are busy all the same.
const { default: TestRunner } = require('jest-runner')

module.exports = class WaitingRunner extends TestRunner {
  constructor(globalConfig, context) {
    super({ ...globalConfig, maxWorkers: Math.ceil(2.5 * globalConfig.maxWorkers) }, context)
  }
}
