// Loads the built entries where there is nothing but the language: no Node, and nothing of a browser either.
import { createContext, runInContext } from 'node:vm'
import { describe, expect, jest, test } from '@jest/globals'
import { buildSync } from 'esbuild'
import { built, readVectors } from '../support/files.js'
import { publishedReports } from '../support/report/published-reports.js'
import { publishedSigners } from '../support/report/signed-reports.js'
import { manifest } from '../support/sources.js'

const { isPortable } = jest.requireActual<{ isPortable: (entry: string) => boolean }>(
  '../support/portable.mjs',
)

type Exports = Readonly<Record<string, { readonly import: string }>>
const exported = manifest.exports as Exports
const entries = Object.keys(exported).filter(isPortable)

/** A file and all it imports, as a bundler for browsers resolves it: it refuses the modules of Node. */
function bundle(contents: string): string {
  const { outputFiles } = buildSync({
    stdin: { contents, resolveDir: built('esm') },
    bundle: true,
    write: false,
    format: 'iife',
    globalName: 'entry',
    platform: 'browser',
    target: 'es2022',
    logLevel: 'silent',
  })
  return outputFiles[0]?.text ?? ''
}

const bundleOf = (entry: string): string =>
  bundle(`export * from './${exported[entry]?.import.replace('./dist/esm/', '')}'`)
/** The same in CommonJS, which says in another way what a browser gets. */
const requiring =
  "export const { createClient, decodeReport, verifyReport } = require('../cjs/index.js')"

/** What runs code in a context with these globals alone; it hands over data as JSON, since objects have realms. */
function createRealm(code: string, globals: object = {}): (expression: string) => unknown {
  const context = createContext(Object.assign(Object.create(null), globals))
  const evaluate = (text: string): unknown => runInContext(text, context)
  evaluate(code)
  return evaluate
}

/** What an entry needs besides: the curves of these entries encode their labels at once. */
const needs: Readonly<Record<string, object>> = {
  './tdh2': { TextEncoder },
  './testing': { TextEncoder },
}

describe('the language alone', () => {
  test.each(entries)('loads %s', entry => {
    const evaluate = createRealm(bundleOf(entry), needs[entry])
    const isProgram = entry === './plugins/verify/thread'
    expect(evaluate('Object.keys(entry).length > 0')).toBe(!isProgram)
  })

  test('is enough for most entries', () => {
    expect(entries).toEqual(
      expect.arrayContaining(['.', './core', './report', './client', './plugins/verify']),
    )
    expect(entries.length).toBeGreaterThan(18)
  })

  test.each([
    ["import 'node:util'", 'Could not resolve "node:util"'],
    ["export const x = () => import('node:os')", 'Could not resolve "node:os"'],
    ["export const x = Buffer.from('')", 'Buffer is not defined'],
    ['export const x = process.env', 'process is not defined'],
    ['export const x = new TextDecoder()', 'TextDecoder is not defined'],
  ])('would notice %s', (text, complaint) => {
    expect(() => createRealm(bundle(text))).toThrow(complaint)
  })
})

/** What a client needs to be made. */
const ofClients = { URL, Headers, AbortController, AbortSignal, setTimeout, clearTimeout }

/** Decoded fields in decimal, as in the vectors. */
const show = `
  const show = decoded => JSON.stringify(Object.fromEntries(
    Object.entries(decoded).map(([name, value]) => [name, String(value)])))`

interface Vector {
  readonly feedID: string
  readonly version: string
  readonly fullReport: string
  readonly decoded: Readonly<Record<string, string>>
}

describe.each([
  ['ES modules', bundleOf('.')],
  ['CommonJS', bundle(requiring)],
])('without an encoder and a decoder of text, as %s', (_format, code) => {
  const evaluate = createRealm(`${code}\n${show}`, ofClients)

  test.each(["proxy: 'http://proxy.example'", "proxy: 'env'", 'tls: {}'])(
    'refuses { %s } at once: there are no sockets',
    option => {
      const urls = "endpoint: 'https://a.example', wsEndpoint: 'wss://a.example'"
      expect(() =>
        evaluate(`entry.createClient({ apiKey: 'a', userSecret: 'b', ${urls}, ${option} })`),
      ).toThrow('proxy and tls are for Node')
    },
  )

  const others = readVectors<{ reports: readonly Vector[] }>('signed-reports.json').reports
  const vectors: readonly Vector[] = [...publishedReports, ...others]

  test.each(vectors.map((vector, index) => [index, vector.version, vector] as const))(
    'decodes report %i, of %s',
    (_index, version, { fullReport, feedID, decoded }) => {
      const given = JSON.stringify([fullReport, feedID])
      const shown = JSON.parse(String(evaluate(`show(entry.decodeReport(...${given}))`)))
      expect(shown).toMatchObject(decoded)
      expect(shown.version).toBe(version)
    },
  )

  const signed = publishedReports.filter(({ configDigest }) => /^0x000[69]/.test(configDigest))

  /** What `verifyReport` resolves or rejects with. */
  async function verify(fullReport: string, signers: unknown): Promise<unknown> {
    const given = `${JSON.stringify(fullReport)}, ${JSON.stringify({ signers })}`
    const text = await evaluate(
      `entry.verifyReport(${given}).then(JSON.stringify, error => JSON.stringify({ reason: error.reason }))`,
    )
    return JSON.parse(String(text))
  }

  test('verifies published reports, and refuses what was changed', async () => {
    const first = signed.find(each =>
      each.signers.every(signer => publishedSigners.signers.includes(signer)),
    )
    if (first === undefined) throw new RangeError('no published report is by the known signers')
    const { fullReport, feedID, signers } = first
    expect(await verify(fullReport, publishedSigners)).toMatchObject({ feedID, signers })
    const changed = `${fullReport.slice(0, 700)}${fullReport[700] === '0' ? '1' : '0'}${fullReport.slice(701)}`
    expect(await verify(changed, publishedSigners)).toMatchObject({ reason: 'unknown-signer' })
    const others = { ...publishedSigners, signers: publishedSigners.signers.map(reverse) }
    expect(await verify(fullReport, others)).toMatchObject({ reason: 'unknown-signer' })
  })
})

const reverse = (address: string): string => `0x${[...address.slice(2)].reverse().join('')}`
