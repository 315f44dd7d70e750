// How much of ours an import brings along.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { copied } from '../../build/compile.mjs'
import { root } from './steps.mjs'

/**
 * The most an entry may weigh: bytes of its own files, bundled, minified and gzipped, dependencies left out. When set, a
 * budget is the size there is and about 15 % more. Grow one on purpose, in the commit that needs it.
 */
export const budgets = {
  '.': 78000,
  './client': 46600,
  './core': 3400,
  './confidential-http': 66000,
  './gateway': 19600,
  './local': 65000,
  './nats': 84000,
  './plugins/bearer-auth': 1650,
  './plugins/confidential-http/templates': 4500,
  './plugins/continuity': 12_000,
  './plugins/decoders': 230,
  './plugins/decoders/v3': 4200,
  './plugins/dedup': 3900,
  './plugins/feed-access': 2900,
  './plugins/ha-discovery': 5000,
  './plugins/hmac-auth': 4900,
  './plugins/logging': 2300,
  './plugins/opentelemetry': 6100,
  './plugins/prometheus': 5500,
  './plugins/rate-limit': 2600,
  './plugins/retry': 4200,
  './plugins/telemetry': 3900,
  './plugins/verify': 15000,
  './plugins/verify/onchain': 12400,
  './presets/confidential': 19500,
  './presets/default': 33_000,
  './presets/feeds': 2200,
  './presets/versions': 6200,
  './report': 9400,
  './stores': 4100,
  './tdh2': 8000,
}

/** Leaves out the packages that the build carries copies of, as those that are installed. */
const withoutCopies = {
  name: 'without-copies',
  setup({ onResolve }) {
    const copies = new RegExp(`/(${copied.join('|')})(/.+)?\\.js$`)
    onResolve({ filter: copies }, ({ path, kind }) =>
      kind === 'entry-point' ? undefined : { path, external: true },
    )
  },
}

/** The most that a bundler may make of these names in a page: for a browser, minified and gzipped, dependencies included. */
export const pageBudgets = { decodeReport: 6000, 'decodeReport, verifyReport': 25_000 }

/** What a bundler makes of names of the package in a page, in one file. */
export async function weighPage(unpacked, names) {
  const { outputFiles } = await build({
    stdin: {
      contents: `export { ${names} } from ${JSON.stringify(entryFile(unpacked, '.'))}`,
      resolveDir: root,
    },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    // An unpacked package has no packages beside it.
    nodePaths: [join(root, 'node_modules')],
    logLevel: 'silent',
  })
  return gzipSync(outputFiles[0].contents, { level: 9 }).byteLength
}

/** The weight of a file with what it imports; dependencies are left out unless `packages` is 'bundle', then those of `external`. */
export async function weigh(file, packages = 'external', external = []) {
  const { outputFiles } = await build({
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages,
    external,
    plugins: packages === 'external' ? [withoutCopies] : [],
    logLevel: 'silent',
  })
  return gzipSync(outputFiles[0].contents, { level: 9 }).byteLength
}

/** The weight of what loading a file with its dependencies loads at once: without what it imports when that is needed. */
export async function weighStart(file) {
  const { outputFiles, metafile } = await build({
    entryPoints: [file],
    bundle: true,
    minify: true,
    write: false,
    splitting: true,
    metafile: true,
    outdir: '/',
    absWorkingDir: '/',
    format: 'esm',
    platform: 'node',
    target: 'node20',
    logLevel: 'silent',
  })
  const { outputs } = metafile
  const reached = new Set(
    Object.keys(outputs).filter(path => outputs[path].entryPoint === file.slice(1)),
  )
  for (const path of reached)
    for (const { path: next, kind, external } of outputs[path].imports)
      if (kind === 'import-statement' && external !== true) reached.add(next)
  const loaded = outputFiles.filter(({ path }) => reached.has(path.slice(1)))
  return loaded.reduce((sum, { contents }) => sum + gzipSync(contents, { level: 9 }).byteLength, 0)
}

/** The file of an entry of an unpacked package. */
export function entryFile(unpacked, entry) {
  const { exports } = JSON.parse(readFileSync(join(unpacked, 'package.json'), 'utf8'))
  return join(unpacked, exports[entry].import.default)
}

export async function checkSizes({ unpacked }) {
  const rows = await Promise.all(
    Object.entries(budgets).map(async ([entry, budget]) => {
      const size = await weigh(entryFile(unpacked, entry))
      return { entry: `sluice${entry.slice(1)}`, size, budget }
    }),
  )
  for (const [names, budget] of Object.entries(pageBudgets))
    rows.push({ entry: `page: ${names}`, size: await weighPage(unpacked, names), budget })
  const lines = rows.map(({ entry, size, budget }) => {
    const verdict = size > budget ? '  OVER' : ''
    return `${entry.padEnd(30)} ${String(size).padStart(6)} of ${String(budget).padStart(6)} bytes${verdict}`
  })
  if (rows.some(({ size, budget }) => size > budget)) throw new Error(lines.join('\n'))
  return `\n${lines.join('\n').replace(/^/gm, '        ')}`
}
