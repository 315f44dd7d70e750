// The bundlers: the forms that each is tried in, with the settings that a user needs, and how each is called. Run as a program, in a
// folder with programs, it bundles one: its argument is a row with `entries` and `out`, and it prints what came of it, as JSON.
import { readFileSync, writeFileSync } from 'node:fs'
import { builtinModules, createRequire } from 'node:module'
import { basename, join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** How a program starts a thread, as text, where the bundler knows the form and bundles the thread's program by itself. */
const known = {
  imports: "import { Worker } from 'node:worker_threads'",
  worker: "new Worker(new URL('./thread.js', import.meta.url))",
}
/** The same where it does not, and the thread's program is a second entry, which lies beside the first. */
const beside = {
  imports: known.imports,
  worker: "new Worker(new URL('./thread.mjs', import.meta.url))",
}
const besideCommonJS = {
  imports: `${known.imports}\nimport { join } from 'node:path'`,
  worker: "new Worker(join(__dirname, 'thread.cjs'))",
}
const inPage = { worker: "new Worker(new URL('./thread.js', import.meta.url), { type: 'module' })" }

/** A form of a program: its source, what is made of it, and the settings that a user needs for that, as text. */
const form = (target, source, output, settings, more) => ({
  target,
  source,
  output,
  name: source === output ? { esm: 'ESM', cjs: 'CommonJS' }[source] : 'ESM to CommonJS',
  settings,
  ...more,
})

const secp256k1 = {
  name: 'ESM, secp256k1',
  isNative: true,
  external: ['secp256k1', 'secp256k1/bindings.js'],
}

/** The forms for Node that each bundler has; `handed` says how its threads are handed over, as ES module and as CommonJS. */
const forNode = (settings, handed, handedCommonJS, more = {}) => [
  form('node', 'esm', 'esm', settings.esm, more),
  form('node', 'esm', 'esm', `${settings.esm}${settings.thread}`, {
    ...{ ...more, ...handed },
    name: 'ESM, threads',
  }),
  form('node', 'esm', 'esm', `${settings.esm}, external secp256k1`, {
    ...more,
    ...secp256k1,
  }),
  form('node', 'esm', 'cjs', settings.cjs, more),
  form('node', 'esm', 'cjs', `${settings.cjs}${settings.thread}`, {
    ...{ ...more, ...handedCommonJS },
    name: 'ESM to CommonJS, threads',
  }),
  form('node', 'cjs', 'cjs', settings.cjs, more),
]
const both = (text, esm = text, thread = ', the thread’s program as a second entry') => ({
  ...{ cjs: text, esm, thread },
})

const exportConditions = "exportConditions ['node']"
const inOneFile = { isOneFile: true }
const packageExports = { hasPackageExports: true }
const withoutOptional = {
  ...packageExports,
  alias: { undici: false, 'secp256k1/bindings.js': false },
}
/** webpack 5.112 breaks this form where the module's name has the prefix. */
const knownByWebpack = { ...known, imports: "import { Worker } from 'worker_threads'" }

const parcelNode = "context 'node', packageExports, alias false for undici and secp256k1"

/** What fails, and no library can mend: the run holds it to failing, so that this stays true. */
const awaiting = {
  isAwaited: true,
  name: 'ESM in one file, top-level await',
  unsupported:
    'Rollup puts what is loaded later below the program, in the same module: a program that waits at its top level waits for itself',
}

/** The forms of each bundler. */
export const forms = {
  esbuild: [
    form('node', 'esm', 'esm', "platform 'node'", {
      ...{ name: 'ESM, a part fails to load', isBroken: true, steps: ['rest', 'loading'] },
    }),
    ...forNode(both("platform 'node'"), beside, besideCommonJS),
    form('web', 'esm', 'esm', 'the thread’s program as a second entry', inPage),
    form('web', 'cjs', 'cjs', ''),
  ],
  webpack: [
    ...forNode(
      both("target 'node'", "target 'node', outputModule", ", Worker from 'worker_threads'"),
      ...[knownByWebpack, knownByWebpack],
    ),
    form('web', 'esm', 'esm', '', inPage),
    form('web', 'cjs', 'cjs', ''),
  ],
  rspack: [
    ...forNode(
      both(
        ...["target 'node'", "target 'node', outputModule"],
        ", workerChunkLoading 'import' if the bundle has ES modules",
      ),
      ...[known, known],
    ),
    form('web', 'esm', 'esm', '', inPage),
    form('web', 'cjs', 'cjs', ''),
  ],
  rollup: [
    ...forNode(both(exportConditions), beside, besideCommonJS),
    form('node', 'esm', 'esm', `${exportConditions}, inlineDynamicImports`, {
      ...inOneFile,
      name: 'ESM in one file',
    }),
    form('node', 'esm', 'esm', `${exportConditions}, inlineDynamicImports`, {
      ...{ ...inOneFile, ...awaiting },
    }),
    form('web', 'esm', 'esm', 'browser, the thread’s program as a second entry', inPage),
    form('web', 'esm', 'esm', 'browser, inlineDynamicImports', {
      ...{ ...inOneFile, ...awaiting },
    }),
    form('web', 'cjs', 'esm', 'browser', { name: 'CommonJS' }),
  ],
  vite: [
    ...forNode(
      both('ssr, noExternal, format cjs', 'ssr, noExternal'),
      ...[beside, besideCommonJS],
    ).filter(({ source }) => source === 'esm'),
    form('web', 'esm', 'esm', '', { ...inPage, isAwaited: true }),
  ],
  parcel: [
    form('node', 'esm', 'esm', parcelNode, {
      ...withoutOptional,
      unsupported:
        'Parcel takes the namespace of a module of Node for its default export in an ES module; let it write CommonJS',
    }),
    ...forNode(both(parcelNode, undefined, ''), known, known, withoutOptional).filter(
      ({ source, output }) => source === 'esm' && output === 'cjs',
    ),
    form('node', 'cjs', 'cjs', "context 'node', packageExports", packageExports),
    form('web', 'esm', 'esm', '', { name: 'ESM' }),
    form('web', 'esm', 'esm', 'packageExports', {
      ...{ ...inPage, ...packageExports },
      name: 'ESM, threads',
    }),
    form('web', 'cjs', 'esm', '', { name: 'CommonJS' }),
  ],
}

/** What a bundler can't do, said beside the table. */
export const notes = {
  vite: 'takes CommonJS from packages alone, so there is no program in CommonJS',
  parcel: 'leaves secp256k1 where it is, and does not find it again: WebAssembly verifies',
}

const builtins = [...builtinModules, ...builtinModules.map(name => `node:${name}`)]
const endingOf = ({ output }) => (output === 'esm' ? 'mjs' : 'cjs')
/** Entries by their names: the program, and that of the thread where it is an entry. */
const namesOf = entries =>
  Object.fromEntries(entries.map(path => [basename(path).replace(/\.\w+$/, ''), path]))

/** Has the module of sockets throw, as it does where a bundler leaves a `require` in an ES module. */
const breakingSockets = {
  name: 'breaking-sockets',
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]shared[\\/]ws\.js$/ }, ({ path }) => ({
      contents: `${readFileSync(path, 'utf8')}
throw new Error('Dynamic require of "events" is not supported')`,
    }))
  },
}

const calls = {
  async esbuild({ target, output, entries, out, external = [], isBroken = false }) {
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
      plugins: isBroken ? [breakingSockets] : [],
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
        emptyOutDir: true,
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

  async parcel({ target, output, entries, out, external = [], hasPackageExports = false, alias }) {
    const { Parcel } = await import('@parcel/core')
    const isForNode = target === 'node'
    const manifest = {
      private: true,
      ...(hasPackageExports && { '@parcel/resolver-default': { packageExports: true } }),
      ...(alias && { alias }),
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
        ...(isModule && {
          module: true,
          chunkFormat: 'module',
          library: { type: 'module' },
          workerChunkLoading: 'import',
        }),
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
