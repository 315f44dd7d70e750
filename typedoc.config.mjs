// The reference of all that the package exports, in `api/`: npm run docs. What is public and has no comment is an error.
import { readFileSync } from 'node:fs'

const { exports } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url), 'utf8'))

const parts = (of, names) => names.split(' ').map(name => `${of}.${name}`)

/** Parts of a type in one line, which the comment of that type describes; and those of an ABI, which Solidity does. */
const described = [
  'index.formatReport.Given.__type.version',
  ...parts(
    'index.Status.__type',
    'type feedIDs staleMs queued waiting oldestMs cause aheadMs path delayMs',
  ),
  'plugins/confidential-http/audit.AuditEvent.__type.type',
  ...parts('confidential-http.AuditContent.__type', 'type cut after'),
  'confidential-http.VerifiedAudit.cuts.__type.file',
  ...parts('client.AesGcm', 'name iv'),
  'client.Bytes.__type.buffer',
  ...parts('index.StreamScope.flow.__type.pause.__type', 'leaks resume'),
  ...parts('client.ConnectionChange.__type', 'type error'),
  ...parts('client.Connections.carried.__type', 'since until'),
  ...parts('client.ScopeEventMap.conflict.__type', 'first other'),
  ...parts('client.StreamCall.reconnect.__type', 'maxReconnectAttempts reconnectInterval'),
  ...parts(
    'plugins/verify/onchain.verifierProxyABI.__type',
    'type name stateMutability inputs outputs inputs.__type.name inputs.__type.type outputs.__type.name outputs.__type.type',
  ),
]

/** @type {Partial<import('typedoc').TypeDocOptions>} */
export default {
  name: 'sluice',
  out: 'api',
  readme: 'none',
  tsconfig: 'tsconfig.json',
  entryPoints: Object.values(exports).flatMap(entry =>
    typeof entry === 'string'
      ? []
      : [entry.import.default.replace('./dist/esm/', '').replace(/js$/, 'ts')],
  ),
  disableSources: true,
  excludeExternals: true,
  excludePrivate: true,
  excludeInternal: true,
  // Types of options and parts that people name seldom are shown where they are used, and not exported by themselves.
  validation: { notDocumented: true, notExported: false },
  intentionallyNotDocumented: described,
  treatWarningsAsErrors: true,
}
