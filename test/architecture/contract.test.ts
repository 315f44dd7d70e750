import { describe, expect, test } from '@jest/globals'
import { membersOf } from '../support/members.js'
import { importsOf, isRelative, read, sources, targetOf } from '../support/sources.js'

/** What the author of a plugin reads. */
const contract: readonly string[] = ['plugin', 'call', 'scope', 'status'].map(
  name => `client/contract/${name}.ts`,
)

/** What plugins share. */
const shared: readonly string[] = ['plugins/decoders/statuses.ts', 'plugins/telemetry/index.ts']

/** What the author of an enclave's plugin reads: calls and errors, and what a vault fulfils. */
const enclaveContract: readonly string[] = ['call', 'errors', 'secret'].map(
  name => `plugins/confidential-http/${name}.ts`,
)
/** Indices of several plugins export them. */
const indices: readonly string[] = [
  'plugins/decoders/index.ts',
  'plugins/decoders/versions.ts',
  'plugins/confidential-http/index.ts',
]

const isOfEnclave = (path: string): boolean => path.startsWith('plugins/confidential-http/')

/** The folder of a plugin's parts, for the plugin and for the parts. */
function partsOf(path: string): string {
  const depth = isOfEnclave(path) && !indices.includes(path) ? 3 : 2
  return `${path.replace(/\.ts$/, '').split('/').slice(0, depth).join('/')}/`
}

function mayImport(path: string, target: string): boolean {
  if (/^(core|platform|report|crypto)\//.test(target) || target.startsWith(partsOf(path)))
    return true
  return isOfEnclave(path)
    ? enclaveContract.includes(target)
    : contract.includes(target) || shared.includes(target)
}

/** The imports of a plugin, or of a part of one, that are not of its contract. */
function wrongImports(path: string, text: string): string[] {
  return importsOf(text)
    .filter(({ from }) => isRelative(from))
    .map(({ from }) => targetOf(path, from))
    .filter(target => !mayImport(path, target))
}

describe('a plugin knows its contract and nothing else of its client', () => {
  const parts = sources.filter(path => path.startsWith('plugins/'))

  test.each(parts)('%s', path => {
    expect(wrongImports(path, read(path))).toEqual([])
  })

  test.each([
    ['plugins/x.ts', "import { APIError } from '../client/contract/errors.js'"],
    ['plugins/x.ts', "import type { Stream } from '../client/stream/stream-api.js'"],
    ['plugins/retry/x.ts', "import { createClient } from '../../client/client.js'"],
    ['plugins/x.ts', "import type { Rest } from '../client/rest.js'"],
    ['plugins/x.ts', "import { VaultError } from './confidential-http/errors.js'"],
    ['plugins/x.ts', "import { fileCursors } from '../client/stores/file-cursors.js'"],
    ['plugins/x.ts', "import type { EnclavePlugin } from './confidential-http/call.js'"],
    [
      'plugins/confidential-http/x.ts',
      "import type { Plugin } from '../../client/contract/plugin.js'",
    ],
    ['plugins/confidential-http/x.ts', "import { fill } from './templates/template.js'"],
    ['plugins/confidential-http/x.ts', "type X = import('../../client/client.js').Client"],
  ])('would notice: %s: %s', (path, text) => {
    expect(wrongImports(path, text)).toHaveLength(1)
  })
})

describe('the contract is small', () => {
  test('the scope of a stream has at most 13 members', () => {
    const members = membersOf('client/contract/scope.ts', 'StreamScope')
    expect(members).toEqual(expect.arrayContaining(['kind', 'log', 'inject']))
    expect(members.length).toBeLessThanOrEqual(13)
    const wider = 'export interface Wider extends StreamScope { readonly urls: string }'
    expect(membersOf('client/contract/scope.ts', 'Wider', wider)).toHaveLength(members.length + 1)
  })

  test('a plugin has a name, seven hooks and its events', () => {
    expect(membersOf('client/contract/plugin.ts', 'Plugin').sort()).toEqual(
      [
        'name',
        'setup',
        'call',
        'attempt',
        'report',
        'acknowledged',
        'unacknowledged',
        'decoders',
        'events',
      ].sort(),
    )
  })
})
