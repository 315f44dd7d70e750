// Compiles TypeScript, and the ES modules of node_modules that jest's CommonJS runtime can't load, with esbuild.
const { dirname, join, relative } = require('node:path')
const { pathToFileURL } = require('node:url')
const { transformSync } = require('esbuild')

const root = join(__dirname, '../../..')
const program = /\bnew URL\((?:\/\*[^*]*\*\/ )?'(\.[^']+\.js)', import\.meta\.url\)/g

/** The program of a thread or a process as the build has made it: such a program has no transform. */
function builtURL(path, program) {
  const [name] = /^(packages[\\/][\w-]+[\\/])?/.exec(relative(root, path))
  const source = relative(join(root, name), join(dirname(path), program))
  const format = name.includes('cli') ? 'esm' : 'cjs'
  return `new URL(${JSON.stringify(pathToFileURL(join(root, name, 'dist', format, source)))})`
}

module.exports = {
  process(source, path) {
    const isOurs = path.endsWith('.ts')
    const text = isOurs ? source.replace(program, (_, file) => builtURL(path, file)) : source
    const { code } = transformSync(text, {
      loader: isOurs ? 'ts' : 'js',
      format: 'cjs',
      target: 'node20',
      sourcemap: 'inline',
      sourcefile: path,
      supported: { 'dynamic-import': false },
      define: { 'import.meta.url': 'importMetaURL' },
      banner: "var importMetaURL = require('node:url').pathToFileURL(__filename).href;",
    })
    return { code }
  },
}
