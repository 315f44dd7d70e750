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
  sluice: 87_000,
  'sluice/beta': 2500,
  'sluice/client': 54_500,
  'sluice/core': 4300,
  'sluice/health': 5300,
  'sluice/plugins/bearer-auth': 1650,
  'sluice/plugins/confidential-http': 20500,
  'sluice/plugins/candles': 6500,
  'sluice/plugins/continuity': 11_800,
  'sluice/plugins/decoders': 7000,
  'sluice/plugins/dedup': 4700,
  'sluice/plugins/feed-access': 3050,
  'sluice/plugins/ha-discovery': 5000,
  'sluice/plugins/hmac-auth': 5300,
  'sluice/plugins/logging': 2550,
  'sluice/plugins/market-guard': 8700,
  'sluice/plugins/opentelemetry': 6500,
  'sluice/plugins/prometheus': 5900,
  'sluice/plugins/rate-limit': 4300,
  'sluice/plugins/retirement': 2600,
  'sluice/plugins/retry': 4300,
  'sluice/plugins/sink': 6500,
  'sluice/plugins/telemetry': 4500,
  'sluice/plugins/verify': 19_500,
  'sluice/plugins/verify/onchain': 12400,
  'sluice/plugins/verify/thread': 3300,
  'sluice/presets/confidential': 19500,
  'sluice/presets/default': 42_500,
  'sluice/presets/ha': 39_500,
  'sluice/proof': 19_500,
  'sluice/report': 11_300,
  'sluice/solana': 1200,
  'sluice/stores': 4450,
  'sluice/tdh2': 8000,
  'sluice/testing': 98_000,
  'sluice/internal': 70_000,
  '@sluice/engine': 33_400,
  '@sluice/engine/jest': 22_000,
  '@sluice/engine/vitest': 22_000,
  '@sluice/confidential-http': 41_000,
  '@sluice/confidential-http/vault': 27000,
  '@sluice/sinks/duckdb': 12_000,
  '@sluice/sinks/parquet': 14_000,
  '@sluice/sinks/postgres': 12_000,
  '@sluice/sinks/kafka': 12_000,
  '@sluice/nats': 24_000,
  '@sluice/nats/gateway': 21_000,
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

/**
 * The most that a bundler may make of these names in a page: for a browser, minified and gzipped, dependencies included, and
 * libsecp256k1 left out. A bundle of several files loads that with the first signature; a bundle of one file has it in it.
 */
export const pageBudgets = { decodeReport: 6200, 'decodeReport, verifyReport': 26_000 }

/** libsecp256k1 as WebAssembly, in base64, with what loads it. The build carries a copy of it as it was published. */
export const wasmBudget = 125_000
const wasm = '@bitauth/libauth.js'

/** Leaves out libsecp256k1. */
const withoutWASM = {
  name: 'without-wasm',
  setup({ onResolve }) {
    onResolve({ filter: new RegExp(`/${wasm}$`) }, ({ path }) => ({ path, external: true }))
  },
}

/** What a bundler makes of names of the package in a page, in one file without libsecp256k1. */
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
    plugins: [withoutWASM],
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
  return join(unpacked, exports[entry].import)
}

export async function checkSizes({ unpacked, all }) {
  const entries = all.flatMap(each => {
    const { exports } = JSON.parse(readFileSync(join(each.unpacked, 'package.json'), 'utf8'))
    return Object.keys(exports)
      .filter(entry => entry !== './package.json')
      .map(entry => [`${each.name}${entry.slice(1)}`, entryFile(each.unpacked, entry)])
  })
  const rows = await Promise.all(
    entries.map(async ([entry, file]) => ({
      entry,
      size: await weigh(file),
      budget: budgets[entry] ?? 0,
    })),
  )
  for (const [names, budget] of Object.entries(pageBudgets))
    rows.push({ entry: `page: ${names}`, size: await weighPage(unpacked, names), budget })
  const chunk = await weigh(join(unpacked, 'dist', 'esm', 'shared', wasm))
  rows.push({ entry: 'libsecp256k1 as WebAssembly', size: chunk, budget: wasmBudget })
  const lines = rows.map(({ entry, size, budget }) => {
    const verdict = size > budget ? '  OVER' : ''
    return `${entry.padEnd(34)} ${String(size).padStart(6)} of ${String(budget).padStart(6)} bytes${verdict}`
  })
  if (rows.some(({ size, budget }) => size > budget)) throw new Error(lines.join('\n'))
  return `\n${lines.join('\n').replace(/^/gm, '        ')}`
}
