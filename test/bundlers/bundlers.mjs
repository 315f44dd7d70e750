// The bundlers: the forms that each is tried in, with the settings that a user needs, and how each is called. Run as a program, in a
// folder with programs, it bundles one: its argument is a row with `entries` and `out`, and it prints what came of it, as JSON.
import { writeFileSync } from 'node:fs'
import { builtinModules, createRequire } from 'node:module'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** How a program starts a thread whose program is bundled beside it, as another entry or because the bundler knows the form. */
const byURL = {
  imports: "import { Worker } from 'node:worker_threads'",
  worker: "new Worker(new URL('./thread.js', import.meta.url))",
}
const byOwnURL = {
  imports: byURL.imports,
  worker: "new Worker(new URL('./thread.mjs', import.meta.url))",
}
const byFolder = {
  esm: {
    imports: `${byURL.imports}\nimport { join } from 'node:path'`,
    worker: "new Worker(join(__dirname, 'thread.cjs'))",
  },
  cjs: {
    imports: "const { Worker } = require('node:worker_threads')",
    worker: "new Worker(require('node:path').join(__dirname, 'thread.cjs'))",
  },
}
const inPage = { worker: "new Worker(new URL('./thread.js', import.meta.url), { type: 'module' })" }

/** A form: what the source is, what is made of it, and the settings that the documentation names, as text. */
const form = (target, source, output, more) => ({
  target,
  source,
  output,
  name: source === output ? { esm: 'ESM', cjs: 'CommonJS' }[source] : 'ESM to CommonJS',
  settings: '',
  ...more,
})
const secp256k1 = {
  isNative: true,
  name: 'ESM, secp256k1',
  settings: 'secp256k1 is external',
  external: ['secp256k1', 'secp256k1/bindings.js'],
}

const esbuildNode = 'platform node'
const rollupNode = "node-resolve: exportConditions ['node']"

/** The forms of each bundler. */
export const forms = {
  esbuild: [
    form('node', 'esm', 'esm', { ...byOwnURL, settings: `${esbuildNode}, 2 entries` }),
    form('node', 'esm', 'cjs', { ...byFolder.esm, settings: `${esbuildNode}, 2 entries` }),
    form('node', 'cjs', 'cjs', { ...byFolder.cjs, settings: `${esbuildNode}, 2 entries` }),
    form('node', 'esm', 'esm', { ...byOwnURL, ...secp256k1 }),
    form('web', 'esm', 'esm', { ...inPage, settings: '2 entries' }),
    form('web', 'cjs', 'cjs', {}),
  ],
  webpack: [
    form('node', 'esm', 'esm', { ...byURL, settings: 'target node, outputModule' }),
    form('node', 'esm', 'cjs', { ...byURL, settings: 'target node' }),
    form('node', 'cjs', 'cjs', { settings: 'target node' }),
    form('node', 'esm', 'esm', { ...byURL, ...secp256k1 }),
    form('web', 'esm', 'esm', { ...inPage }),
    form('web', 'cjs', 'cjs', {}),
  ],
  rspack: [
    form('node', 'esm', 'esm', { ...byURL, settings: 'target node, outputModule' }),
    form('node', 'esm', 'cjs', { ...byURL, settings: 'target node' }),
    form('node', 'cjs', 'cjs', { settings: 'target node' }),
    form('node', 'esm', 'esm', { ...byURL, ...secp256k1 }),
    form('web', 'esm', 'esm', { ...inPage }),
    form('web', 'cjs', 'cjs', {}),
  ],
  rollup: [
    form('node', 'esm', 'esm', { ...byOwnURL, settings: `${rollupNode}, 2 entries` }),
    form('node', 'esm', 'esm', {
      name: 'ESM, one file',
      isOneFile: true,
      isAwaited: true,
      settings: `${rollupNode}, inlineDynamicImports`,
    }),
    form('node', 'esm', 'cjs', { ...byFolder.esm, settings: `${rollupNode}, 2 entries` }),
    form('node', 'cjs', 'cjs', { ...byFolder.cjs, settings: `${rollupNode}, 2 entries` }),
    form('node', 'esm', 'esm', { ...byOwnURL, ...secp256k1 }),
    form('web', 'esm', 'esm', { ...inPage, settings: 'node-resolve: browser, 2 entries' }),
    form('web', 'esm', 'esm', {
      name: 'ESM, one file',
      isOneFile: true,
      isAwaited: true,
      settings: 'node-resolve: browser, inlineDynamicImports',
    }),
    form('web', 'cjs', 'esm', { name: 'CommonJS', settings: 'node-resolve: browser' }),
  ],
  vite: [
    form('node', 'esm', 'esm', {
      ...byOwnURL,
      settings: 'build.ssr, ssr.noExternal true, 2 entries',
    }),
    form('node', 'esm', 'cjs', {
      ...byFolder.esm,
      settings: 'build.ssr, ssr.noExternal true, output.format cjs, 2 entries',
    }),
    form('node', 'esm', 'esm', { ...byOwnURL, ...secp256k1 }),
    form('web', 'esm', 'esm', { ...inPage, isAwaited: true }),
  ],
  parcel: [
    form('node', 'esm', 'esm', { ...byURL, settings: 'context node, includeNodeModules' }),
    form('node', 'esm', 'cjs', { ...byURL, settings: 'context node, includeNodeModules' }),
    form('node', 'cjs', 'cjs', { settings: 'context node, includeNodeModules' }),
    form('node', 'esm', 'esm', { ...byURL, ...secp256k1 }),
    form('web', 'esm', 'esm', { ...inPage }),
    form('web', 'esm', 'esm', {
      ...inPage,
      name: 'ESM, packageExports',
      hasPackageExports: true,
      settings: 'packageExports true',
    }),
    form('web', 'cjs', 'esm', { name: 'CommonJS' }),
  ],
}

/** What a bundler can't do, said beside the table. */
export const notes = {
  vite: 'takes CommonJS from packages alone, so there is no program of CommonJS',
}

const builtins = [...builtinModules, ...builtinModules.map(name => `node:${name}`)]
const endingOf = ({ output }) => (output === 'esm' ? 'mjs' : 'cjs')
/** Entries by their names: the program, and that of the thread where it is an entry. */
const namesOf = entries =>
  Object.fromEntries(entries.map(path => [basename(path).replace(/\.\w+$/, ''), path]))

const calls = {
  async esbuild({ target, output, entries, out, external = [] }) {
    const { build } = await import('esbuild')
    const { metafile, warnings } = await build({
      entryPoints: namesOf(entries),
      outdir: out,
      outExtension: target === 'node' ? { '.js': `.${endingOf({ output })}` } : {},
      bundle: true,
      minify: true,
      metafile: true,
      format: output === 'esm' ? 'esm' : target === 'node' ? 'cjs' : 'iife',
      platform: target === 'node' ? 'node' : 'browser',
      external,
      logLevel: 'silent',
    })
    const modules = Object.values(metafile.outputs).flatMap(({ inputs }) =>
      Object.entries(inputs).flatMap(([path, { bytesInOutput }]) =>
        bytesInOutput > 0 ? path : [],
      ),
    )
    return {
      warnings: warnings.map(({ text, location }) => `${location?.file ?? ''} ${text}`),
      modules,
    }
  },

  webpack: async row => pack((await import('webpack')).default, row),
  rspack: async row => pack((await import('@rspack/core')).rspack, row),

  async rollup({ target, output, entries, out, external = [], isOneFile = false }) {
    const { rollup } = await import('rollup')
    const [{ default: commonjs }, { nodeResolve }, { default: json }, { default: terser }] =
      await Promise.all([
        import('@rollup/plugin-commonjs'),
        import('@rollup/plugin-node-resolve'),
        import('@rollup/plugin-json'),
        import('@rollup/plugin-terser'),
      ])
    const isForNode = target === 'node'
    const warnings = []
    const bundle = await rollup({
      input: isOneFile ? entries[0] : namesOf(entries),
      external: isForNode ? [...builtins, ...external] : external,
      plugins: [
        nodeResolve(isForNode ? { exportConditions: ['node'] } : { browser: true }),
        commonjs(),
        json(),
        terser(),
      ],
      onLog: (level, { message }) => void (level === 'warn' && warnings.push(message)),
    })
    const ending = isForNode ? endingOf({ output }) : 'js'
    const written = await bundle.write({
      dir: out,
      format: output === 'esm' ? 'es' : 'cjs',
      entryFileNames: `[name].${ending}`,
      chunkFileNames: `[name]-[hash].${ending}`,
      inlineDynamicImports: isOneFile,
    })
    return { warnings, modules: modulesOf(written.output) }
  },

  async vite({ target, output, entries, out, external = [] }) {
    const { build } = await import('vite')
    const isForNode = target === 'node'
    const warnings = []
    const note = message => void warnings.push(message)
    const built = await build({
      root: process.cwd(),
      base: './',
      configFile: false,
      logLevel: 'warn',
      customLogger: {
        ...{ info() {}, clearScreen() {}, hasErrorLogged: () => false, hasWarned: false },
        ...{ warn: note, warnOnce: note, error: note },
      },
      build: {
        outDir: out,
        minify: true,
        ssr: isForNode,
        rollupOptions: {
          input: namesOf(entries),
          external,
          output: {
            ...(isForNode && { format: output === 'esm' ? 'es' : 'cjs' }),
            entryFileNames: `[name].${isForNode ? endingOf({ output }) : 'js'}`,
          },
        },
      },
      ssr: { noExternal: true },
    })
    return { warnings, modules: modulesOf(built.output) }
  },

  async parcel({ target, output, entries, out, external = [], hasPackageExports = false }) {
    const { Parcel } = await import('@parcel/core')
    const isForNode = target === 'node'
    const manifest = {
      private: true,
      ...(hasPackageExports && { '@parcel/resolver-default': { packageExports: true } }),
    }
    writeFileSync('package.json', JSON.stringify(manifest))
    const excluded = Object.fromEntries(external.map(name => [name, false]))
    const parcel = new Parcel({
      entries: [entries[0]],
      defaultConfig: createRequire(import.meta.url).resolve('@parcel/config-default'),
      mode: 'production',
      shouldDisableCache: true,
      cacheDir: join(out, '..', '.parcel-cache'),
      env: { NODE_ENV: 'production' },
      defaultTargetOptions: { shouldOptimize: true, sourceMaps: false },
      targets: {
        main: {
          distDir: out,
          publicUrl: './',
          context: isForNode ? 'node' : 'browser',
          outputFormat: output === 'esm' ? 'esmodule' : 'commonjs',
          isLibrary: false,
          includeNodeModules: external.length === 0 ? true : excluded,
          optimize: true,
          scopeHoist: true,
          engines: isForNode ? { node: '>= 20' } : { browsers: 'last 2 Chrome versions' },
        },
      },
    })
    const { bundleGraph, diagnostics = [] } = await parcel.run()
    const modules = []
    for (const bundle of bundleGraph.getBundles())
      bundle.traverseAssets(({ filePath }) => void modules.push(filePath))
    return { warnings: diagnostics.map(({ message }) => message), modules }
  },
}

const modulesOf = output =>
  output.flatMap(({ type, modules, originalFileNames }) =>
    type === 'chunk'
      ? Object.entries(modules).flatMap(([path, { renderedLength }]) =>
          renderedLength > 0 ? path : [],
        )
      : (originalFileNames ?? []),
  )

/** webpack, and rspack, which is called in the same way. */
async function pack(compile, { target, output, entries, out, external = [] }) {
  const isModule = output === 'esm' && target === 'node'
  const stats = await new Promise((resolve, reject) => {
    const settings = {
      mode: 'production',
      context: process.cwd(),
      entry: entries[0],
      target: target === 'node' ? 'node20' : 'web',
      externals: external,
      output: {
        path: out,
        filename: target === 'node' ? `program.${endingOf({ output })}` : 'program.js',
        ...(isModule && { module: true, chunkFormat: 'module', library: { type: 'module' } }),
      },
      ...(isModule && { experiments: { outputModule: true }, externalsType: 'module' }),
      // The sizes of files are in the table.
      performance: { hints: false },
    }
    compile(settings, (error, result) => (error ? reject(error) : resolve(result)))
  })
  const { errors, warnings, modules } = stats.toJson({
    all: false,
    errors: true,
    warnings: true,
    modules: true,
    nestedModules: true,
    modulesSpace: 1e6,
    nestedModulesSpace: 1e6,
    groupModulesByPath: false,
    ids: true,
  })
  if (errors.length > 0)
    throw new Error(
      errors
        .map(({ message }) => message)
        .join('\n')
        .slice(0, 2000),
    )
  const flat = modules.flatMap(each => [each, ...(each.modules ?? [])])
  return {
    warnings: warnings.map(({ message, moduleName = '' }) => `${moduleName} ${message}`),
    modules: flat.flatMap(({ nameForCondition, name }) => nameForCondition ?? name ?? []),
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  const row = JSON.parse(process.argv[2])
  const print = result => writeFileSync(join(row.out, '..', 'result.json'), JSON.stringify(result))
  try {
    print(await calls[row.bundler](row))
  } catch (error) {
    print({
      error: `${error?.message ?? error}${error.diagnostics ? JSON.stringify(error.diagnostics).slice(0, 3000) : ''}`,
      warnings: [],
      modules: [],
    })
  }
  // Some leave workers behind.
  process.exit()
}
