import { expect, test } from '@jest/globals'
import { Registry } from 'prom-client'
import type { Plugin } from '../../client/contract/plugin.js'
import { bearerAuth } from '../../plugins/bearer-auth.js'
import { candles } from '../../plugins/candles/index.js'
import { continuity } from '../../plugins/continuity/index.js'
import { allDecoders, decoders } from '../../plugins/decoders/index.js'
import { dedup } from '../../plugins/dedup.js'
import { feedAccess } from '../../plugins/feed-access.js'
import { haDiscovery } from '../../plugins/ha-discovery/index.js'
import { hmacAuth } from '../../plugins/hmac-auth/index.js'
import { logging } from '../../plugins/logging/index.js'
import { marketGuard } from '../../plugins/market-guard/index.js'
import { opentelemetry } from '../../plugins/opentelemetry/index.js'
import { prometheus } from '../../plugins/prometheus.js'
import { rateLimit } from '../../plugins/rate-limit.js'
import { retirement } from '../../plugins/retirement/index.js'
import { retry } from '../../plugins/retry/index.js'
import { sink } from '../../plugins/sink/index.js'
import { verify } from '../../plugins/verify/index.js'
import { type PluginTestOptions, sampleSigners, testPlugin } from '../../testing/index.js'
import { MemoryStore } from '../support/memory-store.js'

const plugins: readonly (readonly [string, () => Plugin, PluginTestOptions?])[] = [
  ['nothing', () => ({ name: 'nothing', report: next => next })],
  ['bearer-auth', () => bearerAuth({ token: 'token' })],
  ['hmac-auth', () => hmacAuth({ apiKey: 'key', userSecret: 'secret' })],
  ['decoders', () => decoders(...allDecoders)],
  ['feed-access', () => feedAccess()],
  [
    'logging',
    () => logging({ logger: { debug() {}, info() {}, warn() {}, error() {} }, logLevel: 0 }),
  ],
  ['rate-limit', () => rateLimit()],
  ['retirement', () => retirement({ after: 0 })],
  ['retry', () => retry(), { may: ['repeat'] }],
  ['opentelemetry', () => opentelemetry()],
  ['prometheus', () => prometheus({ register: new Registry() })],
  ['dedup', () => dedup(), { may: ['drop'] }],
  ['continuity', () => continuity(), { may: ['add', 'delay', 'reorder'] }],
  [
    'continuity in sorted order',
    () => continuity({ order: 'sorted' }),
    { may: ['add', 'delay', 'reorder'] },
  ],
  ['continuity of the newest', () => continuity({ order: 'newest' }), { may: ['add', 'drop'] }],
  ['market-guard', () => marketGuard()],
  ['market-guard that drops', () => marketGuard({ drop: true }), { may: ['drop'] }],
  ['candles', () => candles({ intervals: ['1s', '1m'] })],
  ['sink', () => sink(new MemoryStore()), { may: ['take'] }],
  ['ha-discovery', () => haDiscovery(), { may: ['repeat'] }],
  ['verify', () => verify({ signers: sampleSigners }), { may: ['delay', 'drop'], signed: true }],
]

for (const [name, make, options] of plugins) {
  test(`${name} keeps the rules of a plugin`, async () => {
    const result = await testPlugin(make, options)
    expect(result.scenarios).toBe(10)
  }, 180_000)
}
