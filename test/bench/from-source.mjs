import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { buildSync } from 'esbuild'
import { root } from '../package/steps.mjs'

const folder = join(root, 'node_modules', '.cache', 'sluice-bench')

/** What source files export, for those parts that no entry of the package does. All come from one copy of the library. */
export function fromSource(...paths) {
  const contents = paths.map(path => `export * from './${path}.ts'`).join('\n')
  const { outputFiles } = buildSync({
    stdin: { contents, resolveDir: root },
    bundle: true,
    write: false,
    packages: 'external',
    format: 'esm',
    platform: 'node',
    target: 'node20.0',
  })
  const file = join(folder, `${paths.join('+').replaceAll('/', '.')}.mjs`)
  mkdirSync(folder, { recursive: true })
  // As the build does, and for its reason.
  writeFileSync(file, outputFiles[0].text.replace(/^var ([\w$]+) = /gm, 'const $1 = '))
  return import(pathToFileURL(file).href)
}
