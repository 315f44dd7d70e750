import { describe, expect, test } from '@jest/globals'
import { VERSION } from '../../core/version.js'
import { isPlugin, manifest, sources } from '../support/sources.js'

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

describe('the package', () => {
  test.each(entries)('%s is a source file in both formats', entry => {
    const source = sourceOf(entry)
    expect(sources).toContain(`${source}.ts`)
    expect(manifest.exports[entry]).toEqual(entryOf(source))
  })

  const plugins = [
    ...sources.filter(isPlugin),
    'plugins/decoders/statuses.ts',
    'plugins/telemetry.ts',
  ]
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
