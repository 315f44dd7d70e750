// A runtime whose realm runs several test files. Helpers of tests have hooks and state of a file, so each file gets new ones. The library,
// its packages and other modules are loaded once.
const { default: Runtime } = require('jest-runtime')

// The parsed sources of the repository are kept for all files.
const HELPER = /[\\/]test[\\/](.*[\\/])?support[\\/](?!sources\.ts)/

module.exports = class JoinedRuntime extends Runtime {
  constructor(config, environment, ...rest) {
    super(config, environment, ...rest)
    const modules = this.registries.moduleRegistry
    environment.global.forgetHelpers = () => {
      for (const path of modules.keys()) if (HELPER.test(path)) modules.delete(path)
    }
  }
}
