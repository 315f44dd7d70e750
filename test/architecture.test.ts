import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import ts from 'typescript'
import { VERSION } from '../core/version.js'

const root = join(__dirname, '..')
const read = (path: string): string => readFileSync(join(root, path), 'utf8')

/** The folders from the bottom up: each imports only what stands before it, types included. */
const order: readonly string[] = [
  'core',
  'crypto',
  'report',
  'local',
  'stores',
  'client',
  'plugins',
  'presets',
  'index.ts',
  'confidential-http',
  'cli',
  'examples',
]

/** Third-party packages, and the files that know them. */
const owners: Readonly<Record<string, RegExp>> = {
  ky: /^client\/transport\/http\.ts$/,
  ws: /^(client\/transport\/ws|local\/websocket-server)\.ts$/,
  eventemitter3: /^client\/stream\/events\.ts$/,
  '@peculiar/webcrypto': /^crypto\/crypto\.ts$/,
  tweetnacl: /^crypto\/sealed-box\.ts$/,
  '@noble/curves': /^(local\/.*|crypto\/tdh2\/group|plugins\/verify\/engine)\.ts$/,
  '@noble/hashes': /^(local\/.*|crypto\/(sealed-box|tdh2\/hash)|plugins\/verify\/engine)\.ts$/,
  secp256k1: /^(local\/curve|plugins\/verify\/engine)\.ts$/,
  asn1js: /^local\/certificate\.ts$/,
  commander: /^cli\//,
  picocolors: /^cli\//,
}

/** An import of what a user names. One file may do so. */
const NOT_LITERAL = '(not a literal)'

interface Import {
  readonly from: string
  readonly isType: boolean
}

interface Manifest {
  readonly version: string
  readonly main: string
  readonly types: string
  readonly dependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly peerDependencies: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
  readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>
}

const manifest: Manifest = JSON.parse(read('package.json'))

function filesBelow(path: string): string[] {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap(entry => {
    const inner = `${path}/${entry.name}`
    return entry.isDirectory() ? filesBelow(inner) : inner.endsWith('.ts') ? [inner] : []
  })
}

const sources: readonly string[] = [
  'index.ts',
  ...order.filter(folder => folder !== 'index.ts').flatMap(filesBelow),
]

const nodesOf = new Map<string, readonly ts.Node[]>()

function findNodes(text: string): readonly ts.Node[] {
  const found = nodesOf.get(text)
  if (found !== undefined) return found
  const nodes: ts.Node[] = []
  nodesOf.set(text, nodes)
  function visit(node: ts.Node): void {
    nodes.push(node)
    ts.forEachChild(node, visit)
  }
  visit(ts.createSourceFile('source.ts', text, ts.ScriptTarget.Latest, true))
  return nodes
}

/** What a node imports: `import`, `export … from`, `import()` as a call and as a type, `require()`. */
function importOf(node: ts.Node): Import | undefined {
  const textOf = (literal: ts.Node | undefined): string =>
    literal !== undefined && ts.isStringLiteralLike(literal) ? literal.text : NOT_LITERAL
  if (ts.isImportDeclaration(node)) {
    // `import { type A } from` still runs the module: only `import type` is gone after the build.
    return { from: textOf(node.moduleSpecifier), isType: node.importClause?.isTypeOnly === true }
  }
  if (ts.isExportDeclaration(node) && node.moduleSpecifier !== undefined)
    return { from: textOf(node.moduleSpecifier), isType: node.isTypeOnly }
  if (ts.isImportTypeNode(node)) {
    const { argument } = node
    return {
      from: textOf(ts.isLiteralTypeNode(argument) ? argument.literal : undefined),
      isType: true,
    }
  }
  if (ts.isExternalModuleReference(node)) return { from: textOf(node.expression), isType: false }
  if (!ts.isCallExpression(node)) return undefined
  const { expression } = node
  const isCall =
    expression.kind === ts.SyntaxKind.ImportKeyword ||
    (ts.isIdentifier(expression) && expression.text === 'require')
  return isCall ? { from: textOf(node.arguments[0]), isType: false } : undefined
}

function importsOf(text: string): Import[] {
  return findNodes(text).flatMap(node => importOf(node) ?? [])
}

/** `core` for a file of core, `index.ts` for itself. */
const houseOf = (path: string): string => path.split('/')[0] as string

const isRelative = (from: string): boolean => /^\.{1,2}\//.test(from)
const isNode = (from: string): boolean => from.startsWith('node:')

function packageOf(from: string): string {
  return from
    .split('/')
    .slice(0, from.startsWith('@') ? 2 : 1)
    .join('/')
}

/** The plugin that verifies, and the folder of what it is made of: threads among it. */
const isVerification = (path: string): boolean => /^plugins\/verify(\/|\.ts$)/.test(path)

/** The folder of what a plugin is made of: plugins/retry for plugins/retry.ts and what is below it. */
function ownFolder(path: string): string {
  return path.replace(/\.ts$/, '').split('/').slice(0, 2).join('/')
}

/** True for a file of a plugin or of a decoder, and not for a part of one. */
function isPlugin(path: string): boolean {
  return (
    path.startsWith('plugins/') &&
    sources.includes(path) &&
    /\): (Plugin(<[^>]*>)?|EnclavePlugin) \{|= defineDecoder\(/.test(read(path))
  )
}

/** What is wrong with the imports of a file. */
function wrongImports(path: string, text: string): string[] {
  const house = houseOf(path)
  return importsOf(text).flatMap(({ from, isType }) => {
    const found = `${path} imports ${from}`
    if (from === NOT_LITERAL && path === 'confidential-http/enclave/open-enclave.ts') return []
    if (isRelative(from)) {
      if (!from.endsWith('.js')) return [`${found} without its extension`]
      const target = join(path, '..', from).replaceAll('\\', '/').replace(/\.js$/, '.ts')
      if (house === 'plugins' && houseOf(target) === 'plugins') {
        const isShared =
          target === 'plugins/decoders/statuses.ts' ||
          (target.startsWith(`${ownFolder(path)}/`) && !isPlugin(target))
        return isShared ? [] : [`${found}: a plugin knows no other`]
      }
      if (order.indexOf(houseOf(target)) > order.indexOf(house))
        return [`${found}: not in that direction`]
      // The data engine is a witness of the client: what it says of reports it says by itself.
      const isOwn =
        house === 'local' && houseOf(target) === 'report' && target !== 'report/feed-id.ts'
      return isOwn && !isType ? [`${found}: types only`] : []
    }
    if (isNode(from)) {
      // The enclave is a thread or process of Node, and so are its plugins.
      const isFree =
        ['stores', 'local', 'confidential-http', 'cli', 'examples'].includes(house) ||
        path.startsWith('plugins/confidential-http/') ||
        path === 'core/platform.ts' ||
        isVerification(path)
      return isFree || isType ? [] : [`${found}: types only`]
    }
    const name = packageOf(from)
    if (name === 'sluice') return house === 'examples' ? [] : [`${found}: that is itself`]
    if (house === 'examples' && name in manifest.devDependencies) return []
    if (!(name in manifest.dependencies || name in manifest.peerDependencies))
      return [`${found}: not a dependency`]
    return owners[name]?.test(path) === true ? [] : [`${found}: others know it`]
  })
}

/** What Node has and a browser's globals may lack. The client runs there, too: it imports them. */
const nodeGlobals: readonly string[] = ['TextDecoder', 'TextEncoder', 'setImmediate']
const isClient = (path: string): boolean =>
  /^(core|crypto|report|client|plugins(?!\/confidential-http\/))\//.test(path) &&
  path !== 'core/platform.ts'

/** What is wrong with the words of a file. */
function wrongWords(path: string, text: string): string[] {
  const lacksPlatform =
    isClient(path) && !importsOf(text).some(({ from }) => /\/platform\.js$/.test(from))
  const isLibrary = !['cli', 'examples'].includes(houseOf(path))
  return findNodes(text).flatMap(node => {
    if (ts.isEnumDeclaration(node)) return [`${path}: enum`]
    if (node.kind === ts.SyntaxKind.AnyKeyword) return [`${path}: any`]
    if (!isLibrary || !ts.isIdentifier(node)) return []
    // A property of that name is somebody else's; the global is ours to avoid.
    const isProperty =
      (ts.isPropertyAccessExpression(node.parent) && node.parent.name === node) ||
      ts.isPropertyAssignment(node.parent) ||
      ts.isPropertySignature(node.parent)
    const isGlobal =
      node.text === 'process' ||
      node.text === 'console' ||
      (lacksPlatform && nodeGlobals.includes(node.text))
    return isGlobal && !isProperty ? [`${path}: ${node.text}`] : []
  })
}

/** The published files of an entry, by format. */
function entryOf(path: string): unknown {
  const files = (format: string): object => ({
    types: `./dist/${format}/${path}.d.ts`,
    default: `./dist/${format}/${path}.js`,
  })
  return { import: files('esm'), require: files('cjs') }
}

/** The source of an entry, without its ending: `./client` is client/index. */
function sourceOf(entry: string): string {
  if (entry === '.') return 'index'
  if (entry === './tdh2') return 'crypto/tdh2/index'
  const path = entry.slice(2)
  return path.includes('/') ? path : `${path}/index`
}

const entries = Object.keys(manifest.exports).filter(entry => entry !== './package.json')

describe('the house', () => {
  test.each(sources)('%s imports in one direction', path => {
    expect(wrongImports(path, read(path))).toEqual([])
  })

  test.each(sources)('%s keeps to the words of the house', path => {
    expect(wrongWords(path, read(path))).toEqual([])
  })

  test.each(Object.keys(manifest.dependencies))('%s is known by one file of a house', name => {
    const knowing = sources.filter(path =>
      importsOf(read(path)).some(({ from }) => !isRelative(from) && packageOf(from) === name),
    )
    expect(Object.keys(owners)).toContain(name)
    expect(knowing.length).toBeGreaterThan(0)
    // The command line is a program of commander's, all of it.
    const libraries = knowing
      .map(path => (path.startsWith('crypto/tdh2/') ? 'crypto/tdh2' : houseOf(path)))
      .filter(house => house !== 'cli')
    expect(libraries).toEqual([...new Set(libraries)])
  })

  test.each([
    ['core/x.ts', "import { retry } from '../plugins/retry.js'", 'not in that direction'],
    ['core/x.ts', "import type { Config } from '../presets/create-client.js'", 'that direction'],
    ['core/x.ts', "export { createClient } from '../index.js'", 'not in that direction'],
    ['core/x.ts', "const x = await import('../local/index.js')", 'not in that direction'],
    ['core/x.ts', "type X = import('../plugins/retry.js').RetryOptions", 'not in that direction'],
    ['core/x.ts', "const x = require('../plugins/retry.js')", 'not in that direction'],
    ['core/x.ts', "import x = require('../plugins/retry.js')", 'not in that direction'],
    ['core/x.ts', "import './errors'", 'without its extension'],
    ['core/x.ts', "import { createHmac } from 'node:crypto'", 'types only'],
    ['core/x.ts', "import { TextDecoder } from 'node:util'", 'types only'],
    ['core/x.ts', "import { type Socket } from 'node:net'", 'types only'],
    ['core/x.ts', "import ky from 'ky'", 'others know it'],
    ['core/x.ts', "import type { Options } from 'ky'", 'others know it'],
    ['core/x.ts', "import { ethers } from 'ethers'", 'not a dependency'],
    ['core/x.ts', "import fs from 'fs'", 'not a dependency'],
    ['core/x.ts', "import { createClient } from 'sluice'", 'that is itself'],
    ['core/x.ts', 'const x = await import(name)', 'not a dependency'],
    ['plugins/x.ts', "import { retry } from './retry.js'", 'knows no other'],
    ['plugins/x.ts', "import { v3 } from './decoders/v3.js'", 'knows no other'],
    ['plugins/decoders/v99.ts', "import { v3 } from './v3.js'", 'knows no other'],
    ['plugins/x.ts', "import { defaultPreset } from '../presets/default.js'", 'that direction'],
    ['plugins/x.ts', "import { keccak_256 } from '@noble/hashes/sha3'", 'others know it'],
    ['plugins/x.ts', "import { createVerifier } from './verify/verifier.js'", 'knows no other'],
    ['plugins/verify/x.ts', "import { retry } from '../retry.js'", 'knows no other'],
    ['plugins/x.ts', "import { createSigner } from './hmac-auth/signer.js'", 'knows no other'],
    ['plugins/verify/x.ts', "const x = await import('secp256k1')", 'others know it'],
    ['local/x.ts', "import { createClient } from '../client/client.js'", 'not in that direction'],
    ['core/x.ts', "import type { Report } from '../report/report.js'", 'not in that direction'],
    [
      'client/x.ts',
      "import { backfill } from '../plugins/continuity/backfill.js'",
      'that direction',
    ],
    ['plugins/retry.ts', "import { x } from './continuity/backfill.js'", 'knows no other'],
    ['local/x.ts', "import { defineDecoder } from '../report/decoder.js'", 'types only'],
    ['local/x.ts', "import { type Report } from '../report/report.js'", 'types only'],
    ['local/x.ts', "import { retry } from '../plugins/retry.js'", 'not in that direction'],
    ['cli/x.ts', "import ky from 'ky'", 'others know it'],
  ])('would notice: %s: %s', (path, text, complaint) => {
    expect(wrongImports(path, text)).toEqual([expect.stringContaining(complaint)])
  })

  test.each([
    ['core/x.ts', "import { asError } from './errors.js'"],
    ['core/x.ts', "import type { IncomingMessage } from 'node:http'"],
    ['client/transport/http.ts', "import ky from 'ky'"],
    ['core/platform.ts', "import { TextDecoder } from 'node:util'"],
    ['plugins/decoders/v99.ts', "import { MarketStatus } from './statuses.js'"],
    ['local/x.ts', "import type { Report } from '../report/report.js'"],
    ['local/x.ts', "import { createServer } from 'node:http'"],
    ['examples/x.ts', "import { createClient } from 'sluice'"],
    ['examples/x.ts', "import { createPublicClient } from 'viem'"],
    ['plugins/verify.ts', "import { createVerifier } from './verify/verifier.js'"],
    ['plugins/hmac-auth.ts', "import { createSigner } from './hmac-auth/signer.js'"],
    ['plugins/verify/x.ts', "import { Worker } from 'node:worker_threads'"],
  ])('would not mind: %s: %s', (path, text) => {
    expect(wrongImports(path, text)).toEqual([])
  })

  test.each([
    ['core/x.ts', 'const key = process.env.API_KEY', 'process'],
    ['core/x.ts', 'const { env } = process', 'process'],
    ['local/x.ts', "console.log('here')", 'console'],
    ['index.ts', 'const log = console', 'console'],
    ['core/x.ts', 'new TextDecoder()', 'TextDecoder'],
    ['plugins/verify/x.ts', 'setImmediate(run)', 'setImmediate'],
    ['core/x.ts', 'enum Color { red }', 'enum'],
    ['core/x.ts', 'let x: any', 'any'],
    ['cli/x.ts', 'const x = y as any', 'any'],
  ])('would notice: %s: %s', (path, text, word) => {
    expect(wrongWords(path, text)).toEqual([`${path}: ${word}`])
  })
})

test('the engine is small, and knows no package, no socket and nothing of what it carries', () => {
  const engine = sources.filter(path => path.startsWith('core/'))
  const lines = engine.flatMap(path => read(path).split('\n'))
  expect(lines.length).toBeLessThanOrEqual(1000)
  for (const path of engine) {
    const strangers = importsOf(read(path)).filter(
      ({ from, isType }) => !isRelative(from) && !isType,
    )
    expect(strangers.filter(() => path !== 'core/platform.ts')).toEqual([])
  }
})

const TEST_LINES = 500

function testFilesBelow(path: string): string[] {
  return readdirSync(join(root, path), { withFileTypes: true }).flatMap(entry => {
    const inner = `${path}/${entry.name}`
    if (entry.isDirectory()) return inner === 'test/vectors' ? [] : testFilesBelow(inner)
    return /\.[mc]?[jt]s$/.test(inner) ? [inner] : []
  })
}

test(`no file of the tests has more than ${TEST_LINES} lines`, () => {
  const long = testFilesBelow('test').filter(path => read(path).split('\n').length > TEST_LINES + 1)
  expect(long).toEqual([])
})

describe('the package', () => {
  test.each(entries)('%s is a source file in both formats', entry => {
    const source = sourceOf(entry)
    expect(sources).toContain(`${source}.ts`)
    expect(manifest.exports[entry]).toEqual(entryOf(source))
  })

  const plugins = [...sources.filter(isPlugin), 'plugins/decoders/statuses.ts']
  test.each(plugins)('%s has an entry', path => {
    expect(entries).toContain(`./${path.replace(/\.ts$/, '')}`)
  })

  test('older resolvers find the same entries', () => {
    const subpaths = entries.filter(entry => entry !== '.')
    expect(manifest.typesVersions).toEqual({
      '*': Object.fromEntries(
        subpaths.map(entry => [entry.slice(2), [`./dist/cjs/${sourceOf(entry)}.d.ts`]]),
      ),
    })
    expect(manifest.main).toBe('./dist/cjs/index.js')
    expect(manifest.types).toBe('./dist/cjs/index.d.ts')
  })

  test('the version in the code is that of the package', () => {
    expect(VERSION).toBe(manifest.version)
  })
})
