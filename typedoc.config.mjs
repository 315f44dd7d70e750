// The reference of all that the package exports, as pages of the site in `docs/reference/api/`: npm run docs. What is public and has no comment is an error.
import { readFileSync } from 'node:fs'

/** The sources of the entries of the library, and of its packages. */
const packages = ['engine', 'confidential-http', 'nats', 'sinks'].map(name => `packages/${name}/`)
const entryPoints = ['', ...packages]
  .flatMap(folder => {
    const manifest = readFileSync(new URL(`./${folder}package.json`, import.meta.url), 'utf8')
    return Object.entries(JSON.parse(manifest).exports).map(([entry, files]) => [
      entry,
      typeof files === 'string' ? files : folder + files.import.replace('./dist/esm/', ''),
    ])
  })
  .filter(([entry]) => entry !== './package.json' && entry !== './internal')
  .map(([, file]) => file.replace(/js$/, 'ts'))

const parts = (of, names) => names.split(' ').map(name => `${of}.${name}`)

/** Parts of a type in one line, which the comment of that type describes; and those of an ABI, which Solidity does. */
const described = [
  'index.formatReport.Given.__type.version',
  ...parts(
    'index.Status.__type',
    'type feedIDs staleMs queued waiting oldestMs cause aheadMs path delayMs',
  ),
  'plugins/confidential-http.AuditEvent.__type.type',
  ...parts('client.AesGcm', 'name iv'),
  ...parts('client.SeenTimes.moveTo.__type', 'since time'),
  'client.Bytes.__type.buffer',
  ...parts('index.StreamScope.flow.__type.pause.__type', 'hasUnpausable resume'),
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
  plugin: ['typedoc-plugin-markdown'],
  out: 'docs/reference/api',
  router: 'module',
  entryFileName: 'index',
  hideBreadcrumbs: true,
  hidePageHeader: true,
  sanitizeComments: true,
  useHTMLEncodedBrackets: true,
  readme: 'none',
  tsconfig: 'tsconfig.json',
  entryPoints,
  disableSources: true,
  excludeExternals: true,
  excludePrivate: true,
  excludeInternal: true,
  // Types of options and parts that people name seldom are shown where they are used, and not exported by themselves.
  validation: { notDocumented: true, notExported: false },
  intentionallyNotDocumented: described,
  treatWarningsAsErrors: true,
}
