import { describe, expect, test } from '@jest/globals'
import ts from 'typescript'
import {
  findNodes,
  houseOf,
  importsOf,
  isPlugin,
  isRelative,
  manifest,
  NOT_LITERAL,
  order,
  packageOf,
  read,
  sources,
  targetOf,
} from '../support/sources.js'

/** Third-party packages, and the files that know them. */
const owners: Readonly<Record<string, RegExp>> = {
  ky: /^client\/transport\/http\.ts$/,
  ws: /^(platform\/socket|local\/websocket-server|gateway\/pages)\.ts$/,
  eventemitter3: /^client\/stream\/events\.ts$/,
  '@peculiar/webcrypto': /^platform\/webcrypto\.ts$/,
  tweetnacl: /^crypto\/sealed-box\.ts$/,
  '@noble/curves': /^(local\/.*|crypto\/tdh2\/group|plugins\/verify\/curve)\.ts$/,
  '@noble/hashes': /^(local\/.*|crypto\/(sealed-box|tdh2\/hash)|plugins\/verify\/keccak)\.ts$/,
  undici: /^platform\/net\.ts$/,
  secp256k1: /^(local\/curve|platform\/secp256k1)\.ts$/,
  '@opentelemetry/api': /^plugins\/opentelemetry(\/.*)?\.ts$/,
  'prom-client': /^(plugins\/prometheus|cli\/output\/metrics)\.ts$/,
  '@nats-io/jetstream': /^nats\//,
  '@nats-io/kv': /^nats\//,
  '@nats-io/transport-node': /^(nats\/|gateway\/options\.ts$|cli\/service\/nats\.ts$)/,
  asn1js: /^local\/certificate\.ts$/,
  commander: /^cli\//,
  'hyparquet-writer': /^cli\/history\/parquet-file\.ts$/,
  picocolors: /^cli\//,
  tldts: /^local\/vault\/public-suffix\.ts$/,
  uplot: /^cli\/monitor\/page\/charts\.ts$/,
}

/** Packages that the build copies, so that nobody installs them. */
const copied: readonly string[] = [
  ...(/copied = \[(.*)\]/.exec(read('build/compile.mjs'))?.[1] ?? '').matchAll(/'([^']+)'/g),
].map(([, name]) => name as string)
const known: readonly string[] = [...Object.keys(manifest.dependencies), ...copied]

/** The forms of modules for Node, and the program of a thread, which is started there alone. */
const isOfNode = (path: string): boolean =>
  /^platform\/[\w/-]+\.ts$/.test(path) || path === 'plugins/verify/recovery-thread.ts'

/** The folder of what a plugin is made of: plugins/retry for plugins/retry.ts and what is below it. */
function ownFolder(path: string): string {
  return path.replace(/\.ts$/, '').split('/').slice(0, 2).join('/')
}

/** What plugins share: each has an entry of its own. */
const shared: readonly string[] = ['plugins/decoders/statuses.ts', 'plugins/telemetry.ts']

/** What is wrong with the imports of a file. */
function wrongImports(path: string, text: string): string[] {
  const house = houseOf(path)
  return importsOf(text).flatMap(({ from, isType }) => {
    const found = `${path} imports ${from}`
    if (from === NOT_LITERAL && path === 'confidential-http/load-function.ts') return []
    if (isRelative(from)) {
      if (!from.endsWith('.js')) return [`${found} without its extension`]
      const target = targetOf(path, from)
      if (house === 'plugins' && houseOf(target) === 'plugins') {
        const isShared =
          shared.includes(target) || (target.startsWith(`${ownFolder(path)}/`) && !isPlugin(target))
        return isShared ? [] : [`${found}: a plugin knows no other`]
      }
      if (order.indexOf(houseOf(target)) > order.indexOf(house))
        return [`${found}: not in that direction`]
      // The data engine is a witness of the client: what it says of reports it says by itself.
      const isOwn =
        house === 'local' && houseOf(target) === 'report' && target !== 'report/feed-id.ts'
      return isOwn && !isType ? [`${found}: types only`] : []
    }
    if (from.startsWith('node:')) {
      // The enclave is a thread or process of Node, and so are its plugins.
      const isFree =
        ['stores', 'local', 'gateway', 'confidential-http', 'cli', 'examples'].includes(house) ||
        path.startsWith('plugins/confidential-http/') ||
        isOfNode(path)
      return isFree || isType ? [] : [`${found}: types only`]
    }
    const name = packageOf(from)
    if (name === 'sluice') return house === 'examples' ? [] : [`${found}: that is itself`]
    if (house === 'examples' && name in manifest.devDependencies) return []
    if (!(known.includes(name) || name in manifest.peerDependencies))
      return [`${found}: not a dependency`]
    return owners[name]?.test(path) === true ? [] : [`${found}: others know it`]
  })
}

/** What Node has and jsdom's globals lack. The client runs there, too: it imports them. */
const nodeGlobals: readonly string[] = ['TextDecoder', 'TextEncoder', 'setImmediate']
const isClient = (path: string): boolean =>
  /^(core|crypto|report|client|plugins(?!\/confidential-http\/)|presets)\//.test(path)
/** Where there may be no Node at all. */
const isPortable = (path: string): boolean => isClient(path) || path.endsWith('.web.ts')

/** What is wrong with the words of a file. */
function wrongWords(path: string, text: string): string[] {
  const lacksPlatform =
    isClient(path) && !importsOf(text).some(({ from }) => /\/platform\/globals\.js$/.test(from))
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
    ['core/x.ts', 'const x = await import(name)', 'not a dependency'],
    ['plugins/x.ts', "import { retry } from './retry.js'", 'knows no other'],
    ['plugins/x.ts', "import { v3 } from './decoders/v3.js'", 'knows no other'],
    ['plugins/decoders/v99.ts', "import { v3 } from './v3.js'", 'knows no other'],
    ['plugins/x.ts', "import { defaultPreset } from '../presets/default.js'", 'that direction'],
    ['plugins/x.ts', "import { keccak_256 } from '@noble/hashes/sha3'", 'others know it'],
    ['plugins/x.ts', "import { createVerifier } from './verify/verifier.js'", 'knows no other'],
    ['plugins/verify/x.ts', "import { retry } from '../retry.js'", 'knows no other'],
    ['plugins/x.ts', "import { createSigner } from './hmac-auth/signer.js'", 'knows no other'],
    ['plugins/x.ts', "import { createSums } from './telemetry/sums.js'", 'knows no other'],
    ['plugins/telemetry/x.ts', "import { trace } from '@opentelemetry/api'", 'others know it'],
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
    ['platform/x.ts', "import { TextDecoder } from 'node:util'"],
    ['platform/x.ts', "import { ValidationError } from '../core/errors.js'"],
    ['plugins/decoders/v99.ts', "import { MarketStatus } from './statuses.js'"],
    ['plugins/x.ts', "import { metrics } from './telemetry.js'"],
    ['local/x.ts', "import type { Report } from '../report/report.js'"],
    ['local/x.ts', "import { createServer } from 'node:http'"],
    ['examples/x.ts', "import { createClient } from 'sluice'"],
    ['examples/x.ts', "import { createPublicClient } from 'viem'"],
    ['plugins/verify.ts', "import { createVerifier } from './verify/verifier.js'"],
    ['plugins/hmac-auth.ts', "import { createSigner } from './hmac-auth/signer.js'"],
    ['plugins/verify/recovery-thread.ts', "import { parentPort } from 'node:worker_threads'"],
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
    ['report/x.ts', "Buffer.from('')", 'Buffer'],
    ['platform/x.web.ts', 'Buffer.alloc(1)', 'Buffer'],
    ['core/x.ts', 'enum Color { red }', 'enum'],
    ['core/x.ts', 'let x: any', 'any'],
    ['cli/x.ts', 'const x = y as any', 'any'],
  ])('would notice: %s: %s', (path, text, word) => {
    expect(wrongWords(path, text)).toEqual([`${path}: ${word}`])
  })
})
