import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as confidential from '@sluice/confidential-http'
import * as vault from '@sluice/confidential-http/vault'
import * as engines from '@sluice/engine'
import * as nats from '@sluice/nats'
import * as gateway from '@sluice/nats/gateway'
import { duckdb } from '@sluice/sinks/duckdb'
import { kafka } from '@sluice/sinks/kafka'
import { parquet } from '@sluice/sinks/parquet'
import { postgres } from '@sluice/sinks/postgres'
import { getTwap } from '../../client/beta.js'
import { createClient } from '../../client/index.js'
import * as tdh2 from '../../crypto/tdh2/index.js'
import * as health from '../../health/index.js'
import * as main from '../../index.js'
import { candles, candlesOf } from '../../plugins/candles/index.js'
import { audit } from '../../plugins/confidential-http/audit.js'
import { limits } from '../../plugins/confidential-http/limits.js'
import { networkPolicy } from '../../plugins/confidential-http/network-policy.js'
import { responseEncryption } from '../../plugins/confidential-http/response-encryption.js'
import { secrets } from '../../plugins/confidential-http/secrets/index.js'
import { templates } from '../../plugins/confidential-http/templates/index.js'
import { marketGuard } from '../../plugins/market-guard/index.js'
import { opentelemetry } from '../../plugins/opentelemetry/index.js'
import { prometheus } from '../../plugins/prometheus.js'
import { sink } from '../../plugins/sink/index.js'
import { onchainSigners } from '../../plugins/verify/onchain/index.js'
import * as proofs from '../../proof/index.js'
import * as kit from '../../testing/index.js'

/** A misspelt option is given: of what the error says it is one, the option, and who gives it. */
export type Case = readonly [of: string, option: string, give: (misspelt: object) => unknown]

/** Options of another type: one of them is misspelt. */
const as = (value: object): never => value as never

const urls = { endpoint: 'https://api.example', wsEndpoint: 'wss://ws.example' }
const keys = { apiKey: 'key', userSecret: 'secret' }
const config = { ...urls, ...keys }
const feedID = `0x0003${'ab'.repeat(30)}`
const addresses = ['1', '2', '3', '4'].map(digit => `0x${digit.repeat(40)}`)
const signers = { signers: addresses, f: 1 }
const owner = `0x${'1'.repeat(40)}`
const upstream = 'http://127.0.0.1:1'
const dealing = { threshold: 1, nodes: 1 }
const request = { request: { url: 'https://api.example', method: 'GET' } }

const newVault = (): Promise<vault.Vault> =>
  vault.createVault(join(mkdtempSync(join(tmpdir(), 'sluice-options-')), 'vault'), { holders: 1 })

const client = (): main.Client => main.createClient(config)

/** A stream that connects to nothing. */
export const openStream = (): main.Stream => client().createStream(feedID)

/** A store that keeps nothing. */
const noStore = as({ name: 'nothing', open: String, write: String, close: String })

const clients: Readonly<Record<string, readonly Case[]>> = {
  createClient: [
    ['createClient', 'retryAttempts', more => main.createClient({ ...config, ...more })],
    ['createClient', 'timeout', more => main.createClient(as({ ...urls, plugins: [], ...more }))],
    ['createClient', 'connect', more => createClient({ ...urls, plugins: [], ...more })],
    ['continuity', 'maxBackfill', more => main.createClient({ ...config, continuity: more })],
    ['rateLimit', 'requests', more => main.createClient({ ...config, rateLimit: more })],
    ['logging', 'logLevel', more => main.createClient({ ...config, logging: more })],
    ['tls', 'passphrase', more => main.createClient({ ...config, tls: more })],
    [
      'verify',
      'signers',
      more => main.createClient({ ...config, verify: as({ signers, ...more }) }),
    ],
    ['createStream', 'overflow', more => client().createStream(feedID, more)],
    ['reports', 'from', more => client().reports(feedID, as({ from: 0, ...more }))],
    ['listFeeds', 'signal', more => client().listFeeds(more)],
    ['getLatestReport', 'signal', more => client().getLatestReport(feedID, more)],
    ['getReportByTimestamp', 'signal', more => client().getReportByTimestamp(feedID, 1, more)],
    ['getReportsPage', 'signal', more => client().getReportsPage(feedID, 1, 1, more)],
    ['getReportsBulk', 'signal', more => client().getReportsBulk([feedID], 1, more)],
  ],
  Stream: [
    ['createClient', 'haMode', more => new main.Stream({ ...config, ...more }, feedID)],
    ['createStream', 'queue', more => new main.Stream(config, feedID, more)],
  ],
  defaultPreset: [['defaultPreset', 'rateLimit', more => main.defaultPreset({ ...keys, ...more })]],
  haPreset: [['haPreset', 'haConnectionTimeout', more => main.haPreset({ ...keys, ...more })]],
}

const plugins: Readonly<Record<string, readonly Case[]>> = {
  bearerAuth: [['bearerAuth', 'token', more => main.bearerAuth({ token: 'a', ...more })]],
  continuity: [['continuity', 'maxBackfill', more => main.continuity(more)]],
  dedup: [['dedup', 'window', more => main.dedup(more)]],
  haDiscovery: [['haDiscovery', 'stagger', more => main.haDiscovery(more)]],
  hmacAuth: [['hmacAuth', 'renewCredentials', more => main.hmacAuth({ ...keys, ...more })]],
  logging: [['logging', 'enableConnectionDebug', more => main.logging(more)]],
  rateLimit: [['rateLimit', 'per', more => main.rateLimit(more)]],
  retirement: [['retirement', 'every', more => main.retirement(more)]],
  retry: [['retry', 'refusedInterval', more => main.retry(more)]],
  verify: [
    ['verify', 'maxPending', more => main.verify({ signers, ...more })],
    ['mode', 'sample', more => main.verify({ signers, mode: as({ sample: 2, ...more }) })],
    ['signers', 'configDigest', more => main.verify({ signers: as({ ...signers, ...more }) })],
  ],
  verifyReport: [
    ['verifyReport', 'checkExpiry', more => main.verifyReport('0x', { signers, ...more })],
  ],
  createProof: [
    ['createProof', 'feedID', more => proofs.createProof(as(client()), as({ at: 1, ...more }))],
    ['createProof', 'field', more => proofs.createProof(as(client()), as({ from: 1, ...more }))],
  ],
  checkProof: [['checkProof', 'against', more => proofs.checkProof('{}', { signers, ...more })]],
  twap: [['twap', 'field', more => proofs.twap([], as({ from: 1, to: 2, ...more }))]],
  getTwap: [['getTwap', 'window', more => getTwap(client(), feedID, as({ window: 30, ...more }))]],
  onchainSigners: [['onchainSigners', 'fromBlock', more => onchainSigners(as(more))]],
  opentelemetry: [['opentelemetry', 'propagate', more => opentelemetry(more)]],
  marketGuard: [
    ['marketGuard', 'maxAge', more => marketGuard(more)],
    [`feeds[${feedID}]`, 'maxSpread', more => marketGuard({ feeds: { [feedID]: more } })],
  ],
  candles: [['candles', 'closeAfter', more => candles(as({ intervals: ['1m'], ...more }))]],
  candlesOf: [
    ['candlesOf', 'field', more => candlesOf([], as({ intervals: ['1m'], ...more })).next()],
  ],
  sink: [['sink', 'maxReports', more => sink(noStore, more)]],
  duckdb: [['duckdb', 'decimals', more => duckdb('prices.db', more)]],
  parquet: [['parquet', 'decimals', more => parquet('prices', more)]],
  postgres: [['postgres', 'decimals', more => postgres('postgres://127.0.0.1/prices', more)]],
  kafka: [
    ['kafka', 'compression', more => kafka({ brokers: ['127.0.0.1:9092'], topic: 't', ...more })],
  ],
  prometheus: [['prometheus', 'prefix', more => prometheus(more)]],
  formatPrice: [
    ['formatPrice', 'digits', more => main.formatPrice(1n, 18, more)],
    ['formatPrice', 'rounding', more => main.formatPrice(1n, 18, more)],
  ],
  defineDecoder: [
    ['defineDecoder', 'fields', more => main.defineDecoder({ version: 42, fields: {}, ...more })],
  ],
}

const kits: Readonly<Record<string, readonly Case[]>> = {
  sampleReport: [
    [
      'sampleReport',
      'signed',
      more => kit.sampleReport({ feedID, observationsTimestamp: 1, ...more }),
    ],
  ],
  testCursorStore: [['testCursorStore', 'close', more => kit.testCursorStore(() => as({}), more)]],
  testDecoder: [
    ['testDecoder', 'samples', more => kit.testDecoder(main.v3, as({ samples: [], ...more }))],
  ],
  testLogger: [['testLogger', 'linesPerSecond', more => kit.testLogger({ warn: () => 0 }, more)]],
  testSink: [['testSink', 'mayRepeat', more => kit.testSink(() => as({}), as(more))]],
  testSigners: [['testSigners', 'samples', more => kit.testSigners(signers, more)]],
  testPlugin: [['testPlugin', 'signed', more => kit.testPlugin(() => ({ name: 'a' }), more)]],
}

/** A connection of NATS that leads nowhere. */
const connection = as({ publish: String, subscribe: String, rtt: String })
const relay = { connection, feedIDs: feedID, config }

const logs: Readonly<Record<string, readonly Case[]>> = {
  natsWire: [
    ['natsWire', 'maxPublishDelay', more => nats.natsWire(connection, more)],
    ['share', 'index', more => nats.natsWire(connection, { share: { index: 0, of: 1, ...more } })],
  ],
  feedsOfShare: [['share', 'index', more => nats.feedsOfShare([], { index: 0, of: 1, ...more })]],
  readDeadLetters: [
    [
      'readDeadLetters',
      'stream',
      more => nats.readDeadLetters(connection, { queue: 'q', ...more }),
    ],
  ],
  republishDeadLetters: [
    [
      'republishDeadLetters',
      'stream',
      more => nats.republishDeadLetters(connection, { queue: 'q', ...more }),
    ],
  ],
  natsCursors: [
    ['natsCursors', 'bucket', more => nats.natsCursors(connection, { key: 'k', ...more })],
  ],
  createRelay: [
    ['createRelay', 'maxUnacknowledged', more => nats.createRelay({ ...relay, ...more })],
    ['create', 'replicas', more => nats.createRelay({ ...relay, create: more })],
  ],
  workerHealth: [
    ['workerHealth', 'queue', more => nats.workerHealth(openStream(), { connection, ...more })],
  ],
  Health: [['Health', 'measures', more => new health.Health(as(more))]],
  sinkHealth: [['sinkHealth', 'service', more => health.sinkHealth(sink(noStore), more)]],
  streamHealth: [['streamHealth', 'service', more => health.streamHealth(openStream(), more)]],
  serveHealth: [['serveHealth', 'processMetrics', more => health.serveHealth(more)]],
  createGateway: [
    [
      'createGateway',
      'origins',
      more => gateway.createGateway({ connection, tokens: {}, ...more }),
    ],
    [
      'limits',
      'bufferedBytes',
      more => gateway.createGateway({ connection, tokens: {}, limits: more }),
    ],
    [
      'tls',
      'cert',
      more => gateway.createGateway({ connection, tokens: {}, tls: as({ ...more }) }),
    ],
    [
      'tokens.a',
      'expires',
      more => gateway.createGateway({ connection, tokens: { a: as({ ...more }) } }),
    ],
    [
      'jwt',
      'audience',
      more => gateway.createGateway({ connection, jwt: as({ jwks: { keys: [] }, ...more }) }),
    ],
    ['createGateway', 'authorize', more => gateway.createGateway({ connection, ...more })],
  ],
  workerPreset: [['workerPreset', 'continuity', more => nats.workerPreset(more)]],
  queuePreset: [['queuePreset', 'logging', more => nats.queuePreset(more)]],
}

const enclaves: Readonly<Record<string, readonly Case[]>> = {
  ConfidentialHTTPClient: [
    [
      'ConfidentialHTTPClient',
      'inputSchema',
      more => new confidential.ConfidentialHTTPClient(more),
    ],
    [
      'sendRequestAsync',
      'signal',
      more => new confidential.ConfidentialHTTPClient().sendRequestAsync(as({}), as({}), more),
    ],
  ],
  confidentialPreset: [
    [
      'confidentialPreset',
      'network',
      more => confidential.confidentialPreset({ vault: as({}), ...more }),
    ],
    [
      'limits',
      'maxTimeout',
      more => confidential.confidentialPreset({ vault: as({}), limits: more }),
    ],
  ],
  createEnclave: [
    ['createEnclave', 'plugins', more => confidential.createEnclave({ plugins: [], ...more })],
    [
      'caller',
      'startedAt',
      more => confidential.createEnclave({ plugins: [] }).send(request, { owner, ...more }),
    ],
  ],
  createLocalRuntime: [
    ['createLocalRuntime', 'memoryMb', more => confidential.createLocalRuntime(as(more))],
    ['createLocalRuntime', 'capabilities', more => confidential.createLocalRuntime(as(more))],
    [
      'network',
      'privateNetworks',
      more => confidential.createLocalRuntime({ vault: 'v', network: more }),
    ],
    [
      'limits',
      'maxRequestBytes',
      more => confidential.createLocalRuntime({ vault: 'v', limits: more }),
    ],
  ],
  createRemoteRuntime: [
    ['createRemoteRuntime', 'enclavePublicKey', more => confidential.createRemoteRuntime(as(more))],
  ],
  decryptResponse: [
    ['decryptResponse', 'crypto', more => confidential.decryptResponse('', '', more)],
  ],
  readKeyFile: [
    ['readKeyFile', 'insecurePermissions', more => confidential.readKeyFile(__filename, more)],
  ],
  startEnclaveServer: [
    ['startEnclaveServer', 'maxConnections', more => confidential.startEnclaveServer(as(more))],
    [
      'callerLimits',
      'requestsAtOnce',
      more =>
        confidential.startEnclaveServer({
          vault: 'v',
          secretKey: '1'.repeat(64),
          callers: { ['5a'.repeat(32)]: owner },
          callerLimits: more,
        }),
    ],
    ['startEnclaveServer', 'network', more => confidential.startEnclaveServer(as(more))],
  ],
  openAuditLog: [['openAuditLog', 'onRecord', more => confidential.openAuditLog(as(more))]],
  verifyAudit: [['verifyAudit', 'head', more => confidential.verifyAudit('f', as(more))]],
  softwareAttestor: [
    ['softwareAttestor', 'measurement', more => confidential.softwareAttestor(as(more))],
  ],
  softwarePolicy: [
    ['softwarePolicy', 'measurements', more => confidential.softwarePolicy(as(more))],
  ],
  templates: [['templates', 'requirePolicies', more => templates(more)]],
  audit: [['audit', 'log', more => audit(as(more))]],
  limits: [['limits', 'defaultTimeout', more => limits(more)]],
  networkPolicy: [['network', 'loopback', more => networkPolicy(more)]],
  secrets: [['secrets', 'vault', more => secrets(as(more))]],
  responseEncryption: [['responseEncryption', 'publicKey', more => responseEncryption(as(more))]],
  generateKeys: [
    ['generateKeys', 'randomScalar', more => tdh2.generateKeys({ ...dealing, ...more })],
  ],
  dealReshare: [
    [
      'dealReshare',
      'threshold',
      more =>
        tdh2.dealReshare(tdh2.generateKeys(dealing).shares[0] as tdh2.PrivateShare, {
          ...dealing,
          ...more,
        }),
    ],
  ],
  dealFresh: [['dealFresh', 'nodes', more => tdh2.dealFresh(0, { ...dealing, ...more })]],
  redeal: [['redeal', 'nodes', more => tdh2.redeal(as({}), 1n, { ...dealing, ...more })]],
  encrypt: [['encrypt', 'label', more => tdh2.encrypt(as({}), new Uint8Array(1), more)]],
  combine: [['combine', 'crypto', more => tdh2.combine(as({}), [], { threshold: 1, ...more })]],
}

/** Gives a method of an engine options, and ends the engine. */
async function withEngine(use: (engine: engines.DataEngine) => unknown): Promise<unknown> {
  const engine = await engines.startDataEngine({ feeds: [feedID], intervalMs: 0, history: 0 })
  return Promise.resolve()
    .then(() => use(engine))
    .finally(() => engine.close())
}

async function withProxy(use: (proxy: engines.FaultProxy) => unknown): Promise<unknown> {
  const proxy = await engines.startFaultProxy({ upstream })
  return Promise.resolve()
    .then(() => use(proxy))
    .finally(() => proxy.close())
}

const local: Readonly<Record<string, readonly Case[]>> = {
  startReplay: [['startReplay', 'speed', more => engines.startReplay([], more)]],
  startDataEngine: [
    ['startDataEngine', 'intervalMs', more => engines.startDataEngine(more)],
    ['feeds', 'entitled', more => engines.startDataEngine({ feeds: [{ feedID, ...more }] })],
    ['publish', 'streamed', more => withEngine(engine => engine.publish(feedID, {}, more))],
    ['rotate', 'nodes', more => withEngine(engine => engine.rotate(more))],
    ['rotateKeys', 'userSecret', more => withEngine(engine => engine.rotateKeys(more))],
    ['fail', 'retryAfter', more => withEngine(engine => engine.fail({ status: 500, ...more }))],
  ],
  startFaultProxy: [
    ['startFaultProxy', 'logLimit', more => engines.startFaultProxy({ upstream, ...more })],
    ['upstream', 'host', more => engines.startFaultProxy({ upstream: as({ port: 1, ...more }) })],
    [
      'script[0]',
      'afterBytes',
      more => engines.startFaultProxy({ upstream, script: [{ do: 'reset', ...more }] }),
    ],
    ['settings', 'corruptRate', more => withProxy(proxy => proxy.set(more))],
    ['halfClose', 'direction', more => withProxy(proxy => proxy.halfClose(1, more))],
    ['blackhole', 'direction', more => withProxy(proxy => proxy.blackhole(1, more))],
    ['drip', 'direction', more => withProxy(proxy => proxy.drip(1, 1, more))],
    ['corrupt', 'bits', more => withProxy(proxy => proxy.corrupt(1, more))],
  ],
  startHTTPSServer: [['startHTTPSServer', 'handler', more => engines.startHTTPSServer(more)]],
  createCertificateAuthority: [
    [
      'issue',
      'hosts',
      async more => (await engines.createCertificateAuthority()).issue({ hosts: ['a'], ...more }),
    ],
  ],
  startVaultHolder: [
    [
      'startVaultHolder',
      'directory',
      more => vault.startVaultHolder({ directory: 'holder', ...more }),
    ],
  ],
  createVault: [['createVault', 'threshold', more => vault.createVault('./vault', more)]],
  openVault: [
    ['openVault', 'insecurePermissions', more => vault.openVault('./vault', more)],
    ['list', 'namespace', async more => (await newVault()).list(more)],
    ['listDamaged', 'owner', async more => (await newVault()).listDamaged(more)],
    [
      'name',
      'namespace',
      async more => (await newVault()).put({ key: 'a', ...more }, 'value', { policy: 'anywhere' }),
    ],
    ['put', 'policy', async more => (await newVault()).put({ key: 'a' }, 'value', as(more))],
    [
      'policy',
      'methods',
      async more =>
        (await newVault()).put({ key: 'a' }, 'value', { policy: as({ hosts: ['a'], ...more }) }),
    ],
    [
      'put',
      'expiresAt',
      async more =>
        (await newVault()).put({ key: 'a' }, 'value', as({ policy: 'anywhere', ...more })),
    ],
    ['reshare', 'threshold', async more => (await newVault()).reshare(more)],
    ['name', 'owner', async more => (await newVault()).remove({ key: 'a', ...more })],
  ],
}

/** Every public function that takes options, with the kinds of options that it takes, or that a method of what it makes does. */
export const factories: Readonly<Record<string, readonly Case[]>> = {
  ...clients,
  ...plugins,
  ...enclaves,
  ...local,
  ...logs,
  ...kits,
}

/** Every public function that takes none; those of a request's fields have messages of their own. */
export const withoutOptions: readonly string[] = [
  'APIError AuditError AuthenticationError ConfidentialHTTPRestrictor ConformanceError DataStreamsError EnclaveError EntitlementError InsufficientConnectionsError MultiConnectionError',
  'OriginDiscoveryError PartialConnectionFailureError ReportDecodingError ReportVerificationError ValidationError',
  'IncompleteError ProofError compressReport reportConfigSeed verifierSeed verifyInstructionData',
  'number oneOf optional readOptions unchecked withDefault',
  'default TDH2Error adviseName checkLogName checkObject checkSubjectPrefix inspectLog reportSchema writeKeyFile RelayLogError ProxyError VaultError WebSocketError Report queueDeliveries',
  'createDecodeReport createDecoderTable decodeReport decoders feedAccess fileCursors findFeed formatReport generateAuthHeaders generateAuthHeadersAsync',
  'getCurrentTimestamp getReportVersion isStreamsError parsePrice rootCertificates toJSON upstreamFailures',
  'encodeParameterPayload encodeVerify encodeVerifyBulk pinoLogger verifyArgs verifyBulkArgs winstonLogger',
  'createTelemetry failureAttributes labelName prometheusName requestAttributes statusOf',
  'measureCode boxKeys createKeys getHeader getHeaders httpRequest json ok openSealed ownBytes parseKey readSecret requestSize text utf8Length withBytes',
  'abortable asError BoundedMap checkBoolean checkFunction checkNumber checkOptions checkPlugins checkSignal checkText composeCall',
  'priceField composeReport connectionFacts findViolation readUse createDeferred createLifetime createLog createSemaphore defaultCrypto describeCall isOverridingHeader unnamedHeaders',
  'watchStream describeStack isDenial isNotFound kindOf onAbort parseOrigins rejectedFeeds setUp sleep withTimeout',
  'Intervals SeenFeeds SeenTimes SigningOrder createOverflowGaps feedResolution feedVersion isFeedID findSignedLater isCurrent isIn isSameBlob markLatest markSignedLater markVerified parseFeedID parseFeedIDs provideSeen readContext readHead seenIn signingOf lazy',
  'addSubShares checkFreshDealing checkReshareDealing checkSubShare combineSubShares formatDealing freshKey parseDealing resharedKey',
  'createCiphertextReader createShare formatMasterSecret formatPrivateShare formatPublicKey ownerLabel parseCiphertext',
  'parseDecryptionShare parseMasterSecret parsePrivateShare parsePublicKey verifyShare',
].flatMap(line => line.split(' '))
