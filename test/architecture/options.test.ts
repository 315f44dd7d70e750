import { join } from 'node:path'
import { describe, expect, jest, test } from '@jest/globals'
import { fileCursors } from '../../client/stores/index.js'
import { feedAccess } from '../../index.js'
import { manifestOf, packages, root } from '../support/sources.js'
import { type Case, factories, openStream, withoutOptions } from './factories.js'

const functions = new Set(
  ['core', ...packages].flatMap(house =>
    Object.entries(manifestOf(house).exports).flatMap(([entry, files]) => {
      if (entry === './package.json' || entry === './internal') return []
      const { import: file } = files as { readonly import: string }
      const source = file.replace('./dist/esm/', '').replace(/\.js$/, '')
      const folder = join(root, packages.includes(house) ? house : '')
      const exported = jest.requireActual<Record<string, unknown>>(join(folder, source))
      return Object.entries(exported).flatMap(([name, value]) =>
        typeof value === 'function' ? [name] : [],
      )
    }),
  ),
)

test('every public function is known to take options, or none', () => {
  expect([...Object.keys(factories), ...withoutOptions].sort()).toEqual([...functions].sort())
})

const cases: readonly (readonly [string, ...Case])[] = Object.entries(factories).flatMap(
  ([name, tries]) => tries.map((each): [string, ...Case] => [name, ...each]),
)

async function failureOf(run: () => unknown): Promise<unknown> {
  try {
    await run()
    return undefined
  } catch (thrown) {
    return thrown
  }
}

test.each<[of: string, give: (options: never) => unknown]>([
  ['feedAccess', options => feedAccess(options)],
  ['fileCursors', options => fileCursors('cursors.json', options)],
  ['connect', options => (openStream().connect as (options: never) => unknown)(options)],
])('%s, which has no options, refuses one', async (of, give) => {
  expect(await failureOf(() => give({ foo: 1 } as never))).toMatchObject({
    name: 'ValidationError',
    message: `unknown option 'foo' of ${of}; there is none`,
  })
})

describe('a misspelt option is an error that names the right one', () => {
  test.each(cases)('%s: of %s, %s', async (_name, of, option, give) => {
    const misspelt = `${option.slice(0, -1)}q${option.slice(-1)}`
    expect(await failureOf(() => give({ [misspelt]: undefined }))).toMatchObject({
      name: 'ValidationError',
      message: `unknown option '${misspelt}' of ${of}; did you mean '${option}'?`,
    })
  })
})
