// A runtime whose realm runs several test files. Helpers of tests have hooks and state of a file, so each file gets new ones. The library,
// its packages and other modules are loaded once.
const { join, relative } = require('node:path')
const { Script } = require('node:vm')
const { default: Runtime } = require('jest-runtime')

const root = join(__dirname, '../../..')
// In the repository, wherever that is. Its parsed sources are kept for all files.
const HELPER = /^(.*[\\/])?test[\\/](.*[\\/])?support[\\/](?!sources\.ts)/

module.exports = class JoinedRuntime extends Runtime {
  constructor(config, environment, ...rest) {
    super(config, environment, ...rest)
    keepCompiled(this.executor, environment)
    const modules = this.registries.moduleRegistry
    environment.global.forgetHelpers = () => {
      for (const path of modules.keys()) if (HELPER.test(relative(root, path))) modules.delete(path)
    }
  }
}

/**
 * Lets V8 keep what a worker has compiled, for the next realms. V8 keeps no script that has a function for its dynamic imports, which
 * jest gives to each.
 */
function keepCompiled(executor, environment) {
  const head = `(function (${executor.injectedModuleParameters.join(', ')}) {`
  const compile = executor.compile.bind(executor)
  executor.compile = (source, filename) => {
    const context = environment.getVmContext()
    if (context === null || /\bimport\s*\(/.test(source)) return compile(source, filename)
    try {
      const script = new Script(`${head}${source}\n})`, { filename, columnOffset: -head.length })
      return script.runInContext(context)
    } catch {
      // Jest tells what is wrong with it.
      return compile(source, filename)
    }
  }
}
