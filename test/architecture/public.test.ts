import { expect, jest, test } from '@jest/globals'
import { importsOf, isRelative, read, sources, targetOf } from '../support/sources.js'

interface Imported {
  readonly name: string
  readonly isType: boolean
}
interface PublicNames {
  readonly createPublicNames: (
    read: (file: string) => string | undefined,
    entries: Readonly<Record<string, string>>,
  ) => (file: string, imported: Imported) => { readonly entry: string } | undefined
  readonly relativeImports: (
    file: string,
    text: string,
  ) => readonly { readonly target: string; readonly names: readonly Imported[] }[]
}
const { createPublicNames, relativeImports } = jest.requireActual<PublicNames>(
  '../package/outside/public-names.mjs',
)

/** What the author of a plugin imports from. */
const entries = {
  'sluice/core': 'core/index',
  'sluice/report': 'report/index',
  'sluice/client': 'client/index',
}
/** And besides, that of a plugin for the enclave. */
const enclaveEntries = {
  ...entries,
  'sluice/tdh2': 'crypto/tdh2/index',
  'sluice/plugins/confidential-http': 'plugins/confidential-http/index',
}
const readSource = (file: string): string | undefined =>
  sources.includes(`${file}.ts`) ? read(`${file}.ts`) : undefined
const findPublic = createPublicNames(readSource, entries)
const findPublicOfEnclave = createPublicNames(readSource, enclaveEntries)

/** What the build chooses by the platform: a plugin that others build has the platform itself. */
const ofTheBuild = /^platform\//
/** The contract of the enclave's plugins, which is theirs together. */
const contract = ['call', 'errors', 'secret'].map(name => `plugins/confidential-http/${name}`)

/** What a file of a plugin imports from elsewhere that no entry exports. */
function privateImports(path: string, text: string): string[] {
  const isOfEnclave = path.startsWith('plugins/confidential-http/')
  const find = isOfEnclave ? findPublicOfEnclave : findPublic
  const imports = relativeImports(path, text)
  const isElsewhere = (target: string): boolean =>
    !target.startsWith('plugins/') || contract.includes(target)
  // What is imported in another way has no names to look up.
  const others = importsOf(text)
    .filter(({ from }) => isRelative(from))
    .map(({ from }) => targetOf(path, from).replace(/\.ts$/, ''))
    .filter(target => isElsewhere(target) && !imports.some(each => each.target === target))
  const named = imports
    .filter(({ target }) => isElsewhere(target))
    .flatMap(({ target, names }) =>
      names.flatMap(each => (find(target, each) === undefined ? `${target}#${each.name}` : [])),
    )
  return [...others, ...named].filter(name => !ofTheBuild.test(name))
}

const parts = sources.filter(path => path.startsWith('plugins/'))

test.each(parts)(
  'a copy of %s would compile outside the package: what it imports is public',
  path => {
    expect(privateImports(path, read(path))).toEqual([])
  },
)

test.each([
  ["import { createDispose } from '../core/log.js'", 'core/log#createDispose'],
  ["import { composeCall, type Handler } from '../core/stack.js'", 'core/stack#composeCall'],
  [
    "import type { Lifecycle } from '../client/stream/lifecycle.js'",
    'client/stream/lifecycle#Lifecycle',
  ],
  [
    "import { LEAST_DIGITS, isSameBlob } from '../report/full-report.js'",
    'report/full-report#LEAST_DIGITS',
  ],
  ["import * as errors from '../core/errors.js'", 'core/errors#*'],
  ["declare module '../core/options.js' { interface Kinds {} }", 'core/options#Kinds'],
  ["const x = await import('../core/errors.js')", 'core/errors'],
  ["type X = import('../core/errors.js').ErrorFacts", 'core/errors'],
  ["import { FieldType } from '../report/field.js'", 'report/field#FieldType'],
  ["import '../core/errors.js'", 'core/errors#*'],
  ["export { foreignCause } from '../core/errors.js'", 'core/errors#foreignCause'],
])('would notice: %s', (text, found) => {
  expect(privateImports('plugins/x.ts', text)).toEqual([found])
})

test.each([
  "import { isStreamsError as is, type ErrorCode } from '../core/errors.js'",
  "import { type WireErrorFacts } from '../client/contract/call.js'",
  "declare module '../core/errors.js' { interface ErrorClasses { MINE: Mine } }",
  "import type { FieldType } from '../report/field.js'",
  "import { DIGITS } from '../report/full-report.js'",
])('would not mind: %s', text => {
  expect(privateImports('plugins/x.ts', text)).toEqual([])
})
