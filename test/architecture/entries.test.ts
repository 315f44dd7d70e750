import { describe, expect, test } from '@jest/globals'
import { VERSION } from '../../core/version.js'
import { isPlugin, manifestOf, packages, read, sources } from '../support/sources.js'

/** The entries of the library and of each package: its house, the path after its name, and the files. */
const entries = ['core', ...packages].flatMap(house =>
  Object.entries(manifestOf(house).exports)
    .filter(([entry]) => entry !== './package.json')
    .map(([entry, files]) => [house, entry, files] as const),
)

/** The source of an entry, without its ending. */
const sourceOf = (files: unknown): string =>
  /^\.\/dist\/esm\/(.+)\.js$/.exec((files as { readonly import: string }).import)?.[1] ?? ''

describe('the packages', () => {
  test.each(entries)('%s: %s is a source file in both formats', (house, _, files) => {
    const source = sourceOf(files)
    expect(sources).toContain(`${packages.includes(house) ? `${house}/` : ''}${source}.ts`)
    expect(files).toEqual({ import: `./dist/esm/${source}.js`, require: `./dist/cjs/${source}.js` })
  })

  const plugins = [...sources.filter(isPlugin), 'plugins/telemetry/index.ts']
  const indices = /^plugins\/(decoders|confidential-http)\//
  test.each(plugins)('%s has an entry', path => {
    const [, folder] = indices.exec(path) ?? []
    const entry = folder ?? path.replace(/^plugins\/|(\/index)?\.ts$/g, '')
    expect(manifestOf('core').exports).toHaveProperty([`./plugins/${entry}`])
    // Several plugins are in one entry.
    const index = folder === undefined ? '' : read(`plugins/${folder}/index.ts`)
    const from = `./${path.split('/').slice(2).join('/').replace(/ts$/, 'js')}`
    if (!path.endsWith('index.ts')) expect(index === '' || index.includes(`'${from}'`)).toBe(true)
  })

  test.each(entries)('older resolvers find %s: %s', (house, entry, files) => {
    const { typesVersions, main, types } = manifestOf(house)
    if (entry === '.')
      expect([main, types]).toEqual(['./dist/cjs/index.js', './dist/cjs/index.d.ts'])
    const declared = `./dist/cjs/${sourceOf(files)}.d.ts`
    const candidates = typesVersions?.['*']?.['*']?.map(each => each.replace('*', entry.slice(2)))
    if (entry !== '.') expect(candidates).toContain(declared)
  })

  test('the version in the code is that of every package', () => {
    const versions = ['core', ...packages].map(house => manifestOf(house).version)
    expect(new Set([...versions, VERSION]).size).toBe(1)
  })
})
