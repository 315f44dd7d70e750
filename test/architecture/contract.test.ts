import { describe, expect, test } from '@jest/globals'
import ts from 'typescript'
import { membersOf } from '../support/members.js'
import { importsOf, isRelative, read, sources, targetOf } from '../support/sources.js'

/** What the author of a plugin reads. */
const contract: readonly string[] = ['plugin', 'call', 'scope', 'status'].map(
  name => `client/${name}.ts`,
)

/** What plugins share. */
const shared: readonly string[] = ['plugins/decoders/statuses.ts', 'plugins/telemetry.ts']

/** What the author of an enclave's plugin reads. */
const enclaveContract: readonly string[] = ['call', 'errors'].map(
  name => `plugins/confidential-http/${name}.ts`,
)

/** What these files may import of the vault: docs/architecture.md says why. */
const fromVault: Readonly<Record<string, readonly string[]>> = {
  'local/vault/secret-name.ts': ['SecretName'],
  'local/vault/secret-policy.ts': ['SecretUse', 'findViolation', 'readUse'],
  'local/vault/errors.ts': ['VaultError'],
}

const isOfEnclave = (path: string): boolean => path.startsWith('plugins/confidential-http/')

/** The folder of a plugin's parts, for the plugin and for the parts. */
function partsOf(path: string): string {
  const depth = isOfEnclave(path) ? 3 : 2
  return `${path.replace(/\.ts$/, '').split('/').slice(0, depth).join('/')}/`
}

function mayImport(path: string, target: string): boolean {
  if (/^(core|platform|report|crypto)\//.test(target) || target.startsWith(partsOf(path)))
    return true
  return isOfEnclave(path)
    ? enclaveContract.includes(target) || target in fromVault
    : contract.includes(target) || shared.includes(target)
}

/** The imports of a plugin, or of a part of one, that are not of its contract. */
function wrongImports(path: string, text: string): string[] {
  return importsOf(text)
    .filter(({ from }) => isRelative(from))
    .map(({ from }) => targetOf(path, from))
    .filter(target => !mayImport(path, target))
}

/** The names that a text imports from a file. */
function namesFrom(path: string, text: string, target: string): string[] {
  const source = ts.createSourceFile(path, text, ts.ScriptTarget.Latest)
  return source.statements.flatMap(statement => {
    if (!ts.isImportDeclaration(statement) || !ts.isStringLiteral(statement.moduleSpecifier))
      return []
    if (targetOf(path, statement.moduleSpecifier.text) !== target) return []
    const bindings = statement.importClause?.namedBindings
    if (bindings === undefined || !ts.isNamedImports(bindings)) return ['*']
    return bindings.elements.map(({ name, propertyName }) => (propertyName ?? name).text)
  })
}

describe('a plugin knows its contract and nothing else of its client', () => {
  const parts = sources.filter(path => path.startsWith('plugins/'))

  test.each(parts)('%s', path => {
    expect(wrongImports(path, read(path))).toEqual([])
  })

  test.each(parts.filter(isOfEnclave))('%s imports what is documented of the vault', path => {
    for (const [target, names] of Object.entries(fromVault))
      expect(names).toEqual(expect.arrayContaining(namesFrom(path, read(path), target)))
  })

  test('docs/architecture.md documents it', () => {
    const document = read('docs/architecture.md').replace(/\s+/g, ' ')
    for (const [target, names] of Object.entries(fromVault))
      for (const name of names) expect(document).toContain(`\`${name}\` from \`${target}\``)
  })

  test.each([
    ['plugins/x.ts', "import { APIError } from '../client/errors.js'"],
    ['plugins/x.ts', "import type { Stream } from '../client/stream/stream-api.js'"],
    ['plugins/retry/x.ts', "import { createClient } from '../../client/client.js'"],
    ['plugins/x.ts', "import type { Rest } from '../client/rest.js'"],
    ['plugins/x.ts', "import { VaultError } from '../local/vault/errors.js'"],
    ['plugins/x.ts', "import { fileCursors } from '../stores/file-cursors.js'"],
    ['plugins/x.ts', "import type { EnclavePlugin } from './confidential-http/call.js'"],
    ['plugins/confidential-http/x.ts', "import type { Plugin } from '../../client/plugin.js'"],
    [
      'plugins/confidential-http/x.ts',
      "import { openVault } from '../../local/vault/open-vault.js'",
    ],
    ['plugins/confidential-http/x.ts', "import { fill } from './templates/template.js'"],
    ['plugins/confidential-http/x.ts', "type X = import('../../local/index.js').Vault"],
  ])('would notice: %s: %s', (path, text) => {
    expect(wrongImports(path, text)).toHaveLength(1)
  })

  test('would notice another name of the vault', () => {
    const path = 'plugins/confidential-http/x.ts'
    const text = "import { checkName, type SecretName } from '../../local/vault/secret-name.js'"
    expect(namesFrom(path, text, 'local/vault/secret-name.ts')).toEqual(['checkName', 'SecretName'])
    const all = "import * as names from '../../local/vault/secret-name.js'"
    expect(namesFrom(path, all, 'local/vault/secret-name.ts')).toEqual(['*'])
  })
})

describe('the contract is small', () => {
  test('its four files have at most 340 lines', () => {
    const lines = contract.flatMap(path => read(path).trimEnd().split('\n'))
    expect(lines.length).toBeLessThanOrEqual(340)
  })

  test('the scope of a stream has at most 13 members', () => {
    const members = membersOf('client/scope.ts', 'StreamScope')
    expect(members).toEqual(expect.arrayContaining(['kind', 'log', 'inject']))
    expect(members.length).toBeLessThanOrEqual(13)
    const wider = 'export interface Wider extends StreamScope { readonly urls: string }'
    expect(membersOf('client/scope.ts', 'Wider', wider)).toHaveLength(members.length + 1)
  })

  test('a plugin has a name, seven hooks and its events', () => {
    expect(membersOf('client/plugin.ts', 'Plugin').sort()).toEqual(
      [
        'name',
        'setup',
        'call',
        'attempt',
        'report',
        'taken',
        'untaken',
        'decoders',
        'events',
      ].sort(),
    )
  })
})
