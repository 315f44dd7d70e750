// Compiles TypeScript, and the ES modules of node_modules that jest's CommonJS runtime can't load, with esbuild.
const { transformSync } = require('esbuild')

module.exports = {
  process(source, path) {
    const { code } = transformSync(source, {
      loader: path.endsWith('.ts') ? 'ts' : 'js',
      format: 'cjs',
      target: 'node20',
      sourcemap: 'inline',
      sourcefile: path,
      supported: { 'dynamic-import': false },
    })
    return { code }
  },
}
