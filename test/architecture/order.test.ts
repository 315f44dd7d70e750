import { describe, expect, test } from '@jest/globals'
import ts from 'typescript'
import {
  findNodes,
  houseOf,
  importsOf,
  isPlugin,
  isRelative,
  manifest,
  manifestOf,
  NOT_LITERAL,
  order,
  packageOf,
  packages,
  read,
  sources,
  targetOf,
} from '../support/sources.js'

/** Third-party packages, and the files that know them. */
const owners: Readonly<Record<string, RegExp>> = {
  ky: /^client\/transport\/http\.ts$/,
  ws: /^(platform\/socket|packages\/engine\/streams|packages\/nats\/gateway\/pages)\.ts$/,
  eventemitter3: /^client\/stream\/events\.ts$/,
  '@peculiar/webcrypto': /^platform\/webcrypto\.ts$/,
  tweetnacl: /^crypto\/sealed-box\.ts$/,
  '@bitauth/libauth': /^plugins\/verify\/wasm\.ts$/,
  '@noble/curves':
    /^(packages\/engine\/.*|crypto\/tdh2\/group|plugins\/verify\/curve|testing\/reports)\.ts$/,
  '@noble/hashes':
    /^(packages\/engine\/.*|crypto\/(sealed-box|tdh2\/encoding)|plugins\/verify\/curve-libraries|testing\/reports)\.ts$/,
  undici: /^platform\/net\.ts$/,
  'jest-environment-node': /^packages\/engine\/jest\.ts$/,
  secp256k1: /^(packages\/engine\/network|platform\/secp256k1)\.ts$/,
  '@opentelemetry/api': /^plugins\/opentelemetry\/.*\.ts$/,
  'prom-client': /^(plugins\/prometheus|health\/serve-health)\.ts$/,
  '@nats-io/jetstream': /^packages\/nats\//,
  '@nats-io/kv': /^packages\/nats\//,
  '@nats-io/transport-node': /^packages\/(nats\/|cli\/service\/nats\.ts$)/,
  '@duckdb/node-api': /^packages\/sinks\//,
  pg: /^packages\/sinks\//,
  '@platformatic/kafka': /^packages\/sinks\//,
  jose: /^packages\/nats\/gateway\/jwt\.ts$/,
  commander: /^packages\/cli\//,
  'hyparquet-writer': /^packages\/cli\/output\/parquet-file\.ts$/,
  picocolors: /^packages\/cli\//,
  '@modelcontextprotocol/sdk': /^packages\/mcp\//,
  zod: /^packages\/mcp\//,
  tldts: /^packages\/confidential-http\/vault\/secrets\.ts$/,
  snappyjs: /^report\/solana\.ts$/,
  uplot: /^packages\/cli\/monitor\/page\/charts\.ts$/,
}

/** Packages that the build copies, so that nobody installs them. */
const copied: readonly string[] = [
  ...(/copied = \[([^\]]*)\]/.exec(read('build/compile.mjs'))?.[1] ?? '').matchAll(/'([^']+)'/g),
].map(([, name]) => name as string)
/** Those that a package, or the library, may import. */
const knownTo = (house: string): readonly string[] => {
  const { dependencies = {}, peerDependencies = {} } = manifestOf(house)
  return [...Object.keys(dependencies), ...Object.keys(peerDependencies), ...copied]
}
const known: readonly string[] = [
  ...new Set(
    ['core', ...packages].flatMap(house => Object.keys(manifestOf(house).dependencies ?? {})),
  ),
  ...copied,
].filter(name => !/^@?sluice\b/.test(name))
/** The entries of the library and of its packages. */
const entries: readonly string[] = ['core', ...packages].flatMap(house => {
  const { name, exports } = manifestOf(house)
  return Object.keys(exports).map(entry => name + entry.slice(1))
})

/** The forms of modules for Node, and the stores of files. */
const isOfNode = (path: string): boolean =>
  /^(platform|client\/stores|health)\/[\w/-]+\.ts$/.test(path)

/** The folder of what a plugin is made of: plugins/retry for plugins/retry/index.ts and what is below it. */
function ownFolder(path: string): string {
  return path.replace(/\.ts$/, '').split('/').slice(0, 2).join('/')
}

/** What plugins share: each has an entry of its own. */
const shared: readonly string[] = ['plugins/decoders/statuses.ts', 'plugins/telemetry/index.ts']

/** Folders of several plugins. */
const indices: readonly string[] = [
  'plugins/decoders/index.ts',
  'plugins/decoders/versions.ts',
  'plugins/confidential-http/index.ts',
]

/** What is wrong with the imports of a file. */
function wrongImports(path: string, text: string): string[] {
  const house = houseOf(path)
  return importsOf(text).flatMap(({ from, isType }) => {
    const found = `${path} imports ${from}`
    if (from === NOT_LITERAL && path === 'packages/confidential-http/load-function.ts') return []
    if (isRelative(from)) {
      if (!/\.js(on)?$/.test(from)) return [`${found} without its extension`]
      const target = targetOf(path, from)
      if (house === 'plugins' && houseOf(target) === 'plugins') {
        const isOwn = target.startsWith(`${ownFolder(path)}/`)
        // The index of several plugins exports them.
        const isShared =
          shared.includes(target) || (isOwn && (!isPlugin(target) || indices.includes(path)))
        return isShared ? [] : [`${found}: a plugin knows no other`]
      }
      if (
        houseOf(target) !== house &&
        (packages.includes(house) || packages.includes(houseOf(target)))
      )
        return [`${found}: packages import entries`]
      return order.indexOf(houseOf(target)) > order.indexOf(house)
        ? [`${found}: not in that direction`]
        : []
    }
    if (from.startsWith('node:')) {
      // The enclave is a thread or process of Node, and so are its plugins.
      const isFree =
        packages.includes(house) ||
        house === 'examples' ||
        path.startsWith('plugins/confidential-http/') ||
        isOfNode(path)
      return isFree || isType ? [] : [`${found}: types only`]
    }
    const name = packageOf(from)
    const isOurs = /^@?sluice$/.test(from.split('/')[0] as string)
    if (isOurs && !entries.includes(from)) return [`${found}: not an entry`]
    if (house === 'examples' && name in manifest.devDependencies) return []
    if (isOurs && name === manifestOf(house).name) return [`${found}: that is itself`]
    if (!knownTo(house).includes(name)) return [`${found}: not a dependency`]
    // The data engine is a witness of the client: what it says of reports it says by itself.
    if (house === 'packages/engine' && /^sluice\/(report|client|plugins)/.test(from) && !isType)
      return importedNames(text, from).every(each => ofFeedIDs.includes(each))
        ? []
        : [`${found}: ids of feeds only`]
    if (isOurs) return []
    return owners[name]?.test(path) === true ? [] : [`${found}: others know it`]
  })
}

/** What says which version and unit a feed has, by its id. */
const ofFeedIDs: readonly string[] = ['feedVersion', 'isFeedID', 'feedResolution', 'parseFeedID']

/** The names that a text imports from a module. */
function importedNames(text: string, from: string): string[] {
  return findNodes(text).flatMap(node => {
    if (!ts.isImportDeclaration(node) || (node.moduleSpecifier as ts.StringLiteral).text !== from)
      return []
    const bindings = node.importClause?.namedBindings
    return bindings !== undefined && ts.isNamedImports(bindings)
      ? bindings.elements
          .filter(({ isTypeOnly }) => !isTypeOnly)
          .map(({ name, propertyName }) => (propertyName ?? name).getText())
      : ['*']
  })
}

/** What Node has and jsdom's globals lack. The client runs there, too: it imports them. */
const nodeGlobals: readonly string[] = ['TextDecoder', 'TextEncoder', 'setImmediate']
const isClient = (path: string): boolean =>
  /^(core|crypto|report|client|plugins(?!\/confidential-http\/)|proof|presets)\//.test(path)
/** Where there may be no Node at all. */
const isPortable = (path: string): boolean => isClient(path) || path.endsWith('.web.ts')

/** What is wrong with the words of a file. */
function wrongWords(path: string, text: string): string[] {
  const lacksPlatform =
    isClient(path) && !importsOf(text).some(({ from }) => /\/platform\/globals\.js$/.test(from))
  const isLibrary = ![
    'packages/cli',
    'packages/mcp',
    'packages/create-sluice',
    'examples',
  ].includes(houseOf(path))
  return findNodes(text).flatMap(node => {
    if (ts.isEnumDeclaration(node)) return [`${path}: enum`]
    // The default of a type parameter is no type of a value.
    if (node.kind === ts.SyntaxKind.AnyKeyword && !ts.isTypeParameterDeclaration(node.parent))
      return [`${path}: any`]
    if (!isLibrary || !ts.isIdentifier(node)) return []
    // A property of that name is somebody else's; the global is ours to avoid.
    const isProperty =
      (ts.isPropertyAccessExpression(node.parent) && node.parent.name === node) ||
      ts.isPropertyAssignment(node.parent) ||
      ts.isPropertySignature(node.parent)
    const isGlobal =
      node.text === 'process' ||
      node.text === 'console' ||
      (node.text === 'Buffer' && isPortable(path)) ||
      (lacksPlatform && nodeGlobals.includes(node.text))
    return isGlobal && !isProperty ? [`${path}: ${node.text}`] : []
  })
}

describe('the house', () => {
  test.each(sources)('%s imports in one direction', path => {
    expect(wrongImports(path, read(path))).toEqual([])
  })

  test.each(sources)('%s keeps to the words of the house', path => {
    expect(wrongWords(path, read(path))).toEqual([])
  })

  test.each(known)('%s is known by one file of a house', name => {
    const knowing = sources.filter(path =>
      importsOf(read(path)).some(({ from }) => !isRelative(from) && packageOf(from) === name),
    )
    expect(Object.keys(owners)).toContain(name)
    expect(knowing.length).toBeGreaterThan(0)
    // The command line is a program of commander's, all of it.
    const libraries = knowing
      .map(path => (path.startsWith('crypto/tdh2/') ? 'crypto/tdh2' : houseOf(path)))
      .filter(house => house !== 'packages/cli')
    expect(libraries).toEqual([...new Set(libraries)])
  })

  test.each([
    ['core/x.ts', "import { retry } from '../plugins/retry.js'", 'not in that direction'],
    ['core/x.ts', "import type { Config } from '../presets/create-client.js'", 'that direction'],
    ['core/x.ts', "export { createClient } from '../index.js'", 'not in that direction'],
    ['core/x.ts', "const x = await import('../packages/engine/index.js')", 'import entries'],
    ['packages/nats/x.ts', "import { sleep } from '../../core/async.js'", 'import entries'],
    ['packages/nats/x.ts', "import { models } from '../engine/price-model.js'", 'import entries'],
    ['packages/nats/x.ts', "import { x } from 'sluice/core/sleep'", 'not an entry'],
    ['packages/nats/x.ts', "import { startDataEngine } from '@sluice/engine'", 'not a dependency'],
    ['core/x.ts', "type X = import('../plugins/retry.js').RetryOptions", 'not in that direction'],
    ['core/x.ts', "const x = require('../plugins/retry.js')", 'not in that direction'],
    ['core/x.ts', "import x = require('../plugins/retry.js')", 'not in that direction'],
    ['core/x.ts', "import './errors'", 'without its extension'],
    ['core/x.ts', "import { createHmac } from 'node:crypto'", 'types only'],
    ['core/x.ts', "import { TextDecoder } from 'node:util'", 'types only'],
    ['core/x.ts', "import { type Socket } from 'node:net'", 'types only'],
    ['platform/x.web.ts', "import { TextDecoder } from 'node:util'", 'types only'],
    ['plugins/verify/x.ts', "import { Worker } from 'node:worker_threads'", 'types only'],
    ['client/x.ts', "import { WebSocket } from 'ws'", 'others know it'],
    ['core/x.ts', "import { toHex } from '../platform/bytes.js'", 'not in that direction'],
    ['core/x.ts', "import ky from 'ky'", 'others know it'],
    ['core/x.ts', "import type { Options } from 'ky'", 'others know it'],
    ['core/x.ts', "import { ethers } from 'ethers'", 'others know it'],
    ['core/x.ts', "import { ethers } from 'web3'", 'not a dependency'],
    ['core/x.ts', "import fs from 'fs'", 'not a dependency'],
    ['core/x.ts', "import { createClient } from 'sluice'", 'that is itself'],
    ['packages/nats/x.ts', "import { natsWire } from '@sluice/nats'", 'that is itself'],
    ['core/x.ts', 'const x = await import(name)', 'not a dependency'],
    ['plugins/x.ts', "import { retry } from './retry.js'", 'knows no other'],
    ['plugins/x.ts', "import { v3 } from './decoders/v3.js'", 'knows no other'],
    ['plugins/decoders/v99.ts', "import { v3 } from './v3.js'", 'knows no other'],
    ['plugins/x.ts', "import { defaultPreset } from '../presets/default.js'", 'that direction'],
    ['plugins/x.ts', "import { keccak_256 } from '@noble/hashes/sha3'", 'others know it'],
    ['plugins/x.ts', "import { createVerifier } from './verify/verifier.js'", 'knows no other'],
    ['plugins/verify/x.ts', "import { retry } from '../retry.js'", 'knows no other'],
    ['plugins/x.ts', "import { createSigner } from './hmac-auth/signer.js'", 'knows no other'],
    ['plugins/x.ts', "import { Sums } from './telemetry/measures.js'", 'knows no other'],
    ['plugins/telemetry/x.ts', "import { trace } from '@opentelemetry/api'", 'others know it'],
    ['plugins/verify/x.ts', "const x = await import('secp256k1')", 'others know it'],
    ['core/x.ts', "import type { Report } from '../report/report.js'", 'not in that direction'],
    [
      'client/x.ts',
      "import { backfill } from '../plugins/continuity/backfill.js'",
      'that direction',
    ],
    ['plugins/retry/index.ts', "import { x } from '../continuity/backfill.js'", 'knows no other'],
    ['packages/engine/x.ts', "import { defineDecoder } from 'sluice/report'", 'ids of feeds'],
    ['packages/engine/x.ts', "import { v3 } from 'sluice/plugins/decoders'", 'ids of feeds'],
    ['packages/cli/x.ts', "import ky from 'ky'", 'others know it'],
  ])('would notice: %s: %s', (path, text, complaint) => {
    expect(wrongImports(path, text)).toEqual([expect.stringContaining(complaint)])
  })

  test.each([
    ['core/x.ts', "import { asError } from './errors.js'"],
    ['core/x.ts', "import type { IncomingMessage } from 'node:http'"],
    ['client/transport/http.ts', "import ky from 'ky'"],
    ['platform/x.ts', "import { TextDecoder } from 'node:util'"],
    ['platform/x.ts', "import { ValidationError } from '../core/errors.js'"],
    ['plugins/decoders/v99.ts', "import { MarketStatus } from './statuses.js'"],
    ['plugins/x.ts', "import { metrics } from './telemetry/index.js'"],
    ['packages/engine/x.ts', "import type { Report } from 'sluice/report'"],
    ['packages/engine/x.ts', "import { isFeedID } from 'sluice/report'"],
    ['packages/engine/x.ts', "import { createServer } from 'node:http'"],
    ['packages/cli/x.ts', "import { networkReason } from 'sluice/internal'"],
    ['examples/x.ts', "import { createClient } from 'sluice'"],
    ['examples/x.ts', "import { createPublicClient } from 'viem'"],
    ['plugins/verify/index.ts', "import { createVerifier } from './verifier.js'"],
    ['plugins/hmac-auth/index.ts', "import { createSigner } from './signer.js'"],
  ])('would not mind: %s: %s', (path, text) => {
    expect(wrongImports(path, text)).toEqual([])
  })

  test.each([
    ['core/x.ts', 'const key = process.env.API_KEY', 'process'],
    ['core/x.ts', 'const { env } = process', 'process'],
    ['packages/engine/x.ts', "console.log('here')", 'console'],
    ['index.ts', 'const log = console', 'console'],
    ['core/x.ts', 'new TextDecoder()', 'TextDecoder'],
    ['plugins/verify/x.ts', 'setImmediate(run)', 'setImmediate'],
    ['report/x.ts', "Buffer.from('')", 'Buffer'],
    ['platform/x.web.ts', 'Buffer.alloc(1)', 'Buffer'],
    ['core/x.ts', 'enum Color { red }', 'enum'],
    ['core/x.ts', 'let x: any', 'any'],
    ['packages/cli/x.ts', 'const x = y as any', 'any'],
  ])('would notice: %s: %s', (path, text, word) => {
    expect(wrongWords(path, text)).toEqual([`${path}: ${word}`])
  })
})
