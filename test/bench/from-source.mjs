import { buildSync } from 'esbuild'
import { root } from '../package/steps.mjs'

/** What source files export, for those parts that no entry of the package does. All come from one copy of the library. */
export function fromSource(...paths) {
  const contents = paths.map(path => `export * from './${path}.ts'`).join('\n')
  const { outputFiles } = buildSync({
    stdin: { contents, resolveDir: root },
    bundle: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20.0',
  })
  // As the build does, and for its reason.
  const built = outputFiles[0].text.replace(/^var ([\w$]+) = /gm, 'const $1 = ')
  return import(`data:text/javascript,${encodeURIComponent(built)}`)
}
