import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import ts from 'typescript'
import { createClient } from '../../index.js'
import { createMembers } from '../support/members.js'
import { findNodes, read, sources } from '../support/sources.js'
import { tablesOf } from '../support/tables.js'
import { pageOf } from './pages.js'

/** What the tables of a page name in the column with that head: `a(b)`, `c` are a and c. */
function namesIn(path: string, column: string): string[] {
  const rows = tablesOf(pageOf(path).text)
    .flatMap(table => table.rows)
    .filter(row => column in row)
  if (rows.length === 0) throw new Error(`${path} has no table with the column "${column}"`)
  return rows.flatMap(row =>
    [...(row[column] ?? '').matchAll(/`([\w.-]+)[^`]*`/g)].map(match => match[1] as string),
  )
}

const sorted = (names: Iterable<string>): string[] => [...new Set(names)].sort()

test('every error code is in the table of errors', () => {
  const codes = sources
    .map(read)
    .filter(text => text.includes('interface ErrorClasses'))
    .flatMap(text =>
      findNodes(text).flatMap(node =>
        ts.isInterfaceDeclaration(node) && node.name.text === 'ErrorClasses'
          ? node.members.map(({ name }) => name?.getText() ?? '')
          : [],
      ),
    )
  expect(codes.length).toBeGreaterThan(30)
  expect(namesIn('docs/reference/errors.md', '`code`').sort()).toEqual(codes.sort())
})

/** Interfaces, and the columns that have their members: each member once. */
const interfaces: readonly (readonly [string, string, string, readonly string[]])[] = [
  [
    'core/scope.ts',
    'ClientScope',
    'reference/plugin-contract',
    ['member of every scope', "member of a client's scope"],
  ],
  [
    'client/contract/scope.ts',
    'RequestScope',
    'reference/plugin-contract',
    ['member of every scope', "member of a request's scope"],
  ],
  [
    'client/contract/scope.ts',
    'StreamScope',
    'reference/plugin-contract',
    ['member of every scope', "member of a stream's scope"],
  ],
  [
    'client/contract/scope.ts',
    'PluginClient',
    'reference/plugin-contract',
    ['member of the client'],
  ],
  [
    'client/contract/scope.ts',
    'Connections',
    'reference/plugin-contract',
    ['member of connections'],
  ],
  ['client/contract/scope.ts', 'ScopeEventMap', 'reference/plugin-contract', ['event for plugins']],
  [
    'client/contract/status.ts',
    'ConnectionState',
    'reference/plugin-contract',
    ['field of a connection'],
  ],
  ['client/rest.ts', 'RequestReply', 'reference/plugin-contract', ["field of a request's reply"]],
  [
    'client/contract/call.ts',
    'StreamReply',
    'reference/plugin-contract',
    ["field of a stream's reply"],
  ],
  ['client/rest.ts', 'Rest', 'guides/requests', ['method']],
  ['client/request/history.ts', 'HistoryOptions', 'guides/requests', ['option of `reports`']],
  ['plugins/retry/delays.ts', 'RetryOptions', 'reference/requests', ['option of `retry`']],
  ['plugins/rate-limit.ts', 'RateLimitOptions', 'reference/requests', ['option of `rateLimit`']],
  ['plugins/hmac-auth/index.ts', 'HmacAuthOptions', 'reference/requests', ['option of `hmacAuth`']],
  ['presets/create-client.ts', 'Config', 'guides/requests', ['option of `createClient`']],
  ['client/egress/options.ts', 'TLSOptions', 'guides/network', ['option of `tls`']],
  ['client/stream/options.ts', 'StreamOptions', 'reference/streams', ['option of a stream']],
  ['client/stream/stream-api.ts', 'StreamEvents', 'reference/streams', ['event']],
  ['client/stream/stream-api.ts', 'StreamMetrics', 'reference/streams', ['metric']],
  ['client/stream/stream-api.ts', 'OriginMetrics', 'reference/streams', ['metric of an origin']],
  [
    'plugins/continuity/index.ts',
    'ContinuityOptions',
    'reference/streams',
    ['option of `continuity`'],
  ],
  [
    'plugins/ha-discovery/index.ts',
    'HaDiscoveryOptions',
    'concepts/high-availability',
    ['option of `haDiscovery`'],
  ],
  [
    'plugins/verify/onchain/index.ts',
    'OnchainSignersOptions',
    'reference/verification',
    ['option of `onchainSigners`'],
  ],
  ['plugins/dedup.ts', 'DedupOptions', 'concepts/high-availability', ['option of `dedup`']],
  ['plugins/verify/options.ts', 'VerifyOptions', 'reference/verification', ['option of `verify`']],
  ['report/price.ts', 'PriceFormat', 'guides/reports', ['option of `formatPrice`']],
  ['report/decoder.ts', 'BaseFields', 'guides/decoders', ['field of every version']],
  [
    'packages/engine/options.ts',
    'DataEngineOptions',
    'reference/testing',
    ['option of `startDataEngine`'],
  ],
  ['packages/engine/data-engine.ts', 'DataEngine', 'reference/testing', ['member of an engine']],
  ['packages/engine/origin.ts', 'EngineOrigin', 'reference/testing', ['member of an origin']],
  [
    'packages/confidential-http/vault/create-vault.ts',
    'VaultOptions',
    'reference/vault',
    ['option of `createVault`'],
  ],
  ['packages/confidential-http/vault/vault.ts', 'Vault', 'reference/vault', ['member of a vault']],
  [
    'packages/confidential-http/remote/callers.ts',
    'CallerLimits',
    'reference/enclave',
    ['option of `callerLimits`'],
  ],
  [
    'plugins/confidential-http/secret.ts',
    'SecretPolicy',
    'reference/vault',
    ['option of a policy'],
  ],
  [
    'packages/confidential-http/attestation/evidence.ts',
    'PresentedEvidence',
    'reference/enclave',
    ['field of presented evidence'],
  ],
  [
    'packages/confidential-http/audit/audit-log.ts',
    'AuditLogOptions',
    'reference/enclave',
    ['option of `openAuditLog`, and of `audit`'],
  ],
  [
    'plugins/confidential-http/call.ts',
    'ConfidentialCall',
    'reference/enclave',
    ['field of a confidential call'],
  ],
  [
    'packages/confidential-http/remote/enclave-server.ts',
    'EnclaveServerOptions',
    'reference/enclave',
    ['option of `startEnclaveServer`'],
  ],
]
const membersOf = createMembers([
  'client/contract/plugin.ts',
  'client/contract/call.ts',
  ...interfaces.map(([path]) => path),
])
/** Members without a name of their own, and the one that tells versions apart. */
const unnamed = /^__@|^version$/

test.each(interfaces)('%s: %s is all in docs/%s.md', (path, name, page, columns) => {
  const named = columns.flatMap(column => namesIn(`docs/${page}.md`, column))
  const members = membersOf(path, name).filter(member => !unnamed.test(member))
  expect(sorted(named.filter(each => !unnamed.test(each)))).toEqual(sorted(members))
})

test('every hook of a plugin is in the table of hooks', () => {
  expect(sorted(['name', ...namesIn('docs/reference/plugin-contract.md', 'hook')])).toEqual(
    sorted(membersOf('client/contract/plugin.ts', 'Plugin')),
  )
})

test('every field of a call is in the table of calls', () => {
  const fields = ['RequestCall', 'StreamCall'].flatMap(name =>
    membersOf('client/contract/call.ts', name),
  )
  expect(sorted(namesIn('docs/reference/plugin-contract.md', 'field of a call'))).toEqual(
    sorted(fields),
  )
})

test('every status is in the table of statuses', () => {
  const types = findNodes(read('client/contract/status.ts')).flatMap(node =>
    ts.isPropertySignature(node) && node.name.getText() === 'type'
      ? findNodes(`type X = ${node.type?.getText()}`).filter(ts.isStringLiteral)
      : [],
  )
  expect(types.length).toBeGreaterThan(10)
  expect(sorted(namesIn('docs/reference/plugin-contract.md', 'type'))).toEqual(
    sorted(types.map(({ text }) => text)),
  )
})

test('every version has its fields in the table of versions, in the order of the encoding', () => {
  const [rows = []] = tablesOf(pageOf('docs/guides/decoders.md').text)
    .map(table => table.rows)
    .filter(([row = {}]) => 'fields' in row)
  expect(rows).toHaveLength(13)
  for (const { version = '', fields = '' } of rows) {
    const name = version.replaceAll('`', '')
    const schema = /fields: \{([^}]*)\}/.exec(read(`plugins/decoders/${name}.ts`))?.[1] ?? ''
    const written = [...schema.matchAll(/(\w+): '([\w-]+)'/g)].map(([, a, b]) => `${a}: ${b}`)
    expect([name, fields.replaceAll('`', '').split(', ')]).toEqual([name, written])
  }
})

test('every field of a report is named, and every one of the metrics is there', async () => {
  const engine = await startDataEngine({ intervalMs: 0, history: 1 })
  const { apiKey, userSecret, endpoint, wsEndpoint } = engine
  const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
  try {
    const [feedID = ''] = engine.feeds
    const report = await client.getLatestReport(feedID)
    const members = [
      ...Object.keys(report),
      ...Object.getOwnPropertyNames(Object.getPrototypeOf(report)),
    ].filter(name => name !== 'constructor')
    expect(members.length).toBeGreaterThan(8)
    expect(sorted(namesIn('docs/guides/reports.md', 'field of a report'))).toEqual(sorted(members))

    const stream = client.createStream(feedID)
    await stream.connect()
    const metrics = stream.getMetrics()
    const [origin = {}] = Object.values(metrics.origins)
    expect(namesIn('docs/reference/streams.md', 'metric')).toEqual(
      expect.arrayContaining(Object.keys(metrics)),
    )
    expect(namesIn('docs/reference/streams.md', 'metric of an origin')).toEqual(
      expect.arrayContaining(Object.keys(origin)),
    )
  } finally {
    await client.close()
    await engine.close()
  }
})
