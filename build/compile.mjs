// Makes modules of the sources of a package: esbuild compiles each file, and Rollup joins them into few, each named for a file in it.
import { cpSync, readFileSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import { decode, encode } from '@jridgewell/sourcemap-codec'
import commonjs from '@rollup/plugin-commonjs'
import { rollup } from '@rollup/wasm-node'
import { transform } from 'esbuild'
import { markPure } from './pure.mjs'

const root = dirname(dirname(fileURLToPath(import.meta.url)))

/**
 * Packages of which the build carries a copy of what it uses, so that nobody installs the rest of them: a tenth of the noble
 * packages. (CommonJS would need one of ky anyway: Node 20 can't require an ES module.)
 */
export const copied = [
  '@bitauth/libauth',
  '@noble/curves',
  '@noble/hashes',
  'commander',
  'eventemitter3',
  'ky',
  'snappyjs',
  'uplot',
  'ws',
]

/** Packages that the library alone carries a copy of: ws, as the client of it that a bundler can put into an ES module. */
const ofLibrary = ['ws']

const carries = (base, id) =>
  copied.includes(packageOf(id)) && (base === root || !ofLibrary.includes(packageOf(id)))

/** The name of a package from what a file imports: `@noble/hashes` of `@noble/hashes/sha3`. */
const packageOf = id => id.split('/', id.startsWith('@') ? 2 : 1).join('/')

/** The file of an ES module of a package, for any platform. */
function fileOf(id) {
  const name = packageOf(id)
  const folder = join(root, 'node_modules', name)
  const { exports } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
  // It is CommonJS that its ES module imports: what its bundle of both exports is no other.
  if (id === 'eventemitter3') return join(folder, 'dist', 'eventemitter3.esm.js')
  // A package without `exports` has its modules at their paths.
  if (exports === undefined) return join(root, 'node_modules', id)
  let found = exports[`.${id.slice(name.length)}`] ?? exports
  while (typeof found === 'object') found = found.import ?? found.default
  return join(folder, found)
}

const settings = {
  target: 'node20.0',
  tsconfigRaw: { compilerOptions: { verbatimModuleSyntax: true } },
}

/**
 * Finds and compiles the sources below a folder; packages stay imports, but for those to copy. A module of platform/ that has a form for the web
 * stays an import, too, where that is an entry, so that nothing of the form for Node is taken for granted: of ES modules,
 * `imports` of package.json says which form is loaded, of CommonJS what a bundler reads in `browser`.
 */
function sources(base, entries, format) {
  const programs = new Map()
  return {
    name: 'sources',
    resolveId(id, importer) {
      if (importer === undefined) return id
      if (id.startsWith('\0')) return undefined
      if (id.startsWith('.')) {
        const path = join(dirname(importer), id)
        if (id.endsWith('.json')) return path
        if (!importer.endsWith('.ts')) return /\.m?js$/.test(path) ? path : `${path}.js`
        const source = `${path.slice(0, -'.js'.length)}.ts`
        const name = nameOf(base, source)
        if (!entries.includes(`${name}.web`)) return source
        return format === 'es'
          ? { id: `#${name}`, external: true }
          : { id: path, external: 'relative' }
      }
      if (carries(base, id)) return fileOf(id)
      return { id, external: true }
    },
    async transform(source, id) {
      if (id.startsWith('\0')) return undefined
      if (id.endsWith('.json')) return { code: `export default ${source}`, map: { mappings: '' } }
      const isOurs = id.endsWith('.ts')
      const options = isOurs
        ? { loader: 'ts', sourcefile: id, sourcemap: true }
        : { loader: 'js', legalComments: 'none', minifyWhitespace: true }
      const { code, map } = await transform(isOurs ? source : withoutAddons(source), {
        ...settings,
        ...options,
      })
      if (!isOurs) return { code, map: { mappings: '' } }
      const marked = markPure(code, this.parse(code))
      return {
        code: marked.replaceAll(program, (text, path) =>
          entries.includes(nameOf(base, programOf(id, path)))
            ? text
            : programURL(this, programs, base, id, path),
        ),
        map,
      }
    },
    resolveFileUrl({ relativePath }) {
      const path = relativePath.startsWith('.') ? relativePath : `./${relativePath}`
      return `new URL('${path}', ${format === 'es' ? 'import.meta.url' : fileURL})`
    },
  }
}

/** ws tries for two packages in machine code, which would spare a client nothing, and of which bundlers warn. */
const withoutAddons = source =>
  source.replace(/!process\.env\.WS_NO_(BUFFER_UTIL|UTF_8_VALIDATE)/g, 'false')

/** The program of a thread or a process: it gets a file at its source's place, which the one that starts it names. */
const program = /\bnew URL\((?:\s*\/\*[^*]*\*\/)?\s*"(\.[^"]+\.js)",\s*import\.meta\.url\s*\)/g
const fileURL = "require('node:url').pathToFileURL(__filename).href"

const programOf = (id, path) => join(dirname(id), path.replace(/\.js$/, '.ts'))

function programURL(context, programs, base, id, path) {
  const source = programOf(id, path)
  const fileName = `${nameOf(base, source)}.js`
  // Several modules may start it.
  const known = programs.get(fileName) ?? context.emitFile({ type: 'chunk', id: source, fileName })
  programs.set(fileName, known)
  return `import.meta.ROLLUP_FILE_URL_OBJ_${known}`
}

/**
 * Has CommonJS require what it loads when that is needed: hosts that run CommonJS by themselves, as jest does, can't import.
 * What a user names is still imported: it may be an ES module.
 */
const requiring = {
  name: 'requiring',
  renderDynamicImport({ targetModuleId, targetChunk }) {
    if (targetModuleId === null) return { left: 'import(', right: ')' }
    if (targetChunk !== null) return undefined
    // Not in a function of its own, or bundlers don't see that a package which is tried for may be absent.
    return {
      left: '(module => Promise.resolve({ ...module, default: module }))(require(',
      right: '))',
    }
  },
  resolveImportMeta: property => (property === 'url' ? fileURL : undefined),
}

/** Packages that a bundle loads where they are installed: one is machine code, and both may be absent. webpack would warn of them. */
const loadedBeside = ['secp256k1/bindings.js', 'undici']
const besides = {
  name: 'besides',
  renderDynamicImport: ({ targetModuleId }) =>
    loadedBeside.includes(targetModuleId)
      ? { left: 'import(/* webpackIgnore: true */ ', right: ')' }
      : undefined,
}

/**
 * Leaves in source maps where each line begins, without columns within it: a sixth of their size, and all that a stack needs.
 * Both formats name the same copy of a source, in src/ beside them, so that the package holds each source once.
 */
const shortMaps = base => ({
  name: 'short-maps',
  generateBundle({ dir }, files) {
    const copies = join(dir, '..', 'src')
    for (const file of Object.values(files)) {
      if (!file.fileName.endsWith('.map')) continue
      const map = JSON.parse(file.source)
      const folder = dirname(join(dir, file.fileName))
      map.mappings = encode(decode(map.mappings).map(keepLines))
      map.names = []
      map.sources = map.sources.map(path => {
        const source = join(folder, path)
        const copy = join(copies, relative(base, source))
        cpSync(source, copy)
        return relative(folder, copy).split(sep).join('/')
      })
      file.source = JSON.stringify(map)
    }
  },
})

/** The segments of a line at which another line of a source begins. */
function keepLines(segments) {
  let last
  return segments.flatMap(([column, source, line, sourceColumn]) => {
    if (source === undefined || (last?.[0] === source && last[1] === line)) return []
    last = [source, line]
    return [[column, source, line, sourceColumn]]
  })
}

/**
 * What a file is called within its package: its path without its ending, or the name of the package that is copied. The noble
 * packages keep their files: a bundler leaves out a curve that a page does not use where that is in a file of its own.
 */
function nameOf(base, id) {
  const path = relative(root, id).split(sep).join('/')
  if (!path.startsWith('node_modules/'))
    return relative(base, id).split(sep).join('/').replace(/\.ts$/, '')
  const file = path.slice('node_modules/'.length)
  const name = packageOf(file)
  return name.startsWith('@noble/') ? file.replace('/esm/', '/').replace(/\.js$/, '') : name
}

/** Whether a name of a file is of a package that is copied. */
export const isOfCopied = name => copied.includes(packageOf(name))

const isCopied = id => isOfCopied(nameOf(root, id))

/**
 * What the default entry of the library needs is in few files, as opening one takes longer than reading it. They are named for
 * folders: two are loaded at once, `report` with what stands at the bottom and `client` with the rest, and one with the first call.
 * At the bottom is also what files need that are loaded later, so that none of these imports `client`, which loads it.
 */
const bottom = /^(core|crypto|platform|report|plugins\/decoders)\//
/** What loads a file that imports much of the bottom is by itself: else a page that uses the bottom alone would keep all of that. */
const alone = /^plugins\/verify\/lazy-verify-report$/
const groups = ['report', 'client', 'client/transport']
const withFirstCall = ['client/request/requests', 'client/stream/running-stream']

/** Returns a function that finds the group of a module; undefined for one that is in none. */
function createGrouping() {
  let group
  return function groupOf(id, { getModuleInfo, getModuleIds }) {
    if (group === undefined) {
      const atOnce = reachedFrom([sourceOf('index')], getModuleInfo)
      const lazy = [...getModuleIds()].flatMap(each => getModuleInfo(each).dynamicallyImportedIds)
      const later = reachedFrom(
        lazy.filter(each => !atOnce.has(each)),
        getModuleInfo,
      )
      group = new Map(
        Array.from(reachedFrom(withFirstCall.map(sourceOf), getModuleInfo), each => [
          each,
          groups[2],
        ]),
      )
      for (const each of atOnce) {
        const name = nameOf(root, each)
        const isBottom = bottom.test(name) || later.has(each)
        group.set(each, alone.test(name) ? name : groups[isBottom ? 0 : 1])
      }
      group.delete(sourceOf('index'))
    }
    return group.get(id)
  }
}

/** These modules, and all that they import to begin with. */
function reachedFrom(ids, getModuleInfo) {
  const reached = new Set(ids)
  for (const each of reached)
    for (const next of getModuleInfo(each)?.importedIds ?? []) reached.add(next)
  return reached
}

const sourceOf = name => join(root, `${name}.ts`)

/**
 * Writes modules of a format into a folder: one for each of these sources below `base`, given without their ending, and what
 * several have in common in shared/, once. A shared module has the name of its last source, the one that imports the others. Returns
 * the names of the packages that they carry a copy of.
 */
export async function compile(entries, format, dir, base = root) {
  const bundle = await rollup({
    input: Object.fromEntries(entries.map(entry => [entry, join(base, `${entry}.ts`)])),
    plugins: [
      sources(base, entries, format),
      commonjs({ include: /node_modules\/(commander|ws|snappyjs)\// }),
      format === 'cjs' ? requiring : besides,
      shortMaps(base),
    ],
    // No file of ours is imported for what it does.
    treeshake: { moduleSideEffects: false },
    onLog(level, { message }) {
      if (level !== 'debug') throw new Error(message)
    },
  })
  const groupOf = base === root ? createGrouping() : () => undefined
  const { output } = await bundle.write({
    dir,
    format,
    // A file holds code of ours or of one package.
    manualChunks: (id, graph) => (isCopied(id) ? nameOf(base, id) : groupOf(id, graph)),
    chunkFileNames: ({ name, moduleIds }) =>
      `shared/${groups.includes(name) ? name : nameOf(base, moduleIds.at(-1))}.js`,
    sourcemap: true,
    sourcemapExcludeSources: true,
    // As Node does where an ES module imports CommonJS.
    interop: 'default',
    esModule: true,
    exports: 'named',
    externalLiveBindings: false,
    freeze: false,
    generatedCode: { preset: 'es2015', symbols: false },
    hoistTransitiveImports: false,
    minifyInternalExports: false,
    banner: ({ moduleIds }) =>
      moduleIds.some(isCopied) ? '/* Its licence is in dist/THIRD-PARTY-LICENSES. */' : '',
  })
  await bundle.close()
  return new Set(
    output.flatMap(({ moduleIds = [] }) =>
      moduleIds.filter(isCopied).map(id => packageOf(nameOf(base, id))),
    ),
  )
}
