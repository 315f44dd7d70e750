import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { type Plugin, rollup } from '@rollup/wasm-node'
import { root } from '../support/sources.js'

interface Pure {
  markPure(code: string, program: unknown): string
}

/** What is left of a module of which only `used` is imported, marked or as it is. */
async function shaken(code: string, isMarked: boolean): Promise<string> {
  const { markPure }: Pure = await import(join(root, 'build', 'pure.mjs'))
  const files: Plugin = {
    name: 'files',
    resolveId: id => id,
    load: id => (id === 'entry' ? "export { used } from 'module'" : code),
    transform(text, id) {
      return isMarked && id === 'module' ? markPure(text, this.parse(text)) : text
    },
  }
  const bundle = await rollup({ input: 'entry', plugins: [files] })
  const { output } = await bundle.generate({})
  return output[0].code
}

const used = 'export const used = 1\n'

test.each([
  ['a call', 'const unused = makeUnused(1)'],
  ['what is made with new', 'export const unused = new Unused([1])'],
  ['what is read of another value', 'const unused = globalThis.unused.deep'],
  ['a class with a static block', 'export class Unused { static { Unused.made = true } }'],
  ['a call within an object', 'const unused = { deep: [makeUnused()] }'],
])('%s is left out where it is not used', async (_what, code) => {
  expect(await shaken(used + code, false)).toContain('nused')
  expect(await shaken(used + code, true)).not.toContain('nused')
})

test.each([
  ['a value', 'export const used = [1, 2].map(each => 2 * each)', [2, 4]],
  ['an object', 'export const used = { ...{ one: 1 } }', { one: 1 }],
  [
    'a class',
    'class Base { static { Base.prototype.name = "base" } }\nexport const used = new Base().name + Base.name',
    'baseBase',
  ],
  ['what a program waits for', 'export const used = await Promise.resolve(3)', 3],
])('%s that is used is the same', async (_what, code, expected) => {
  const text = await shaken(code, true)
  const program = `${text}\nconsole.log(JSON.stringify(used))`
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program])
  expect(JSON.parse(String(stdout))).toEqual(expected)
})

test('no line is added', async () => {
  const { markPure }: Pure = await import(join(root, 'build', 'pure.mjs'))
  const { parseAst } = await import('@rollup/wasm-node/parseAst')
  const code = 'class One {\n  static {\n    One.made = true\n  }\n}\nconst two = make(\n  1,\n)\n'
  const marked = markPure(code, parseAst(code))
  expect(marked).not.toBe(code)
  expect(marked.split('\n')).toHaveLength(code.split('\n').length)
})
