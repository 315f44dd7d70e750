import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { compile } from '../../build/compile.mjs'
import { root } from '../package/steps.mjs'

/** What source files export, for those parts that no entry of the package does. All come from one copy of the library. */
export async function fromSource(...paths) {
  // Within the repository, where packages are found, and for this process alone.
  const folder = join(root, 'node_modules', '.cache', `sluice-bench-${process.pid}`)
  // What is loaded at the first use is needed later.
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  await compile(paths, 'es', folder)
  const modules = paths.map(path => import(pathToFileURL(join(folder, `${path}.js`)).href))
  return Object.assign({}, ...(await Promise.all(modules)))
}
