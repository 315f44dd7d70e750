// The order of a stack is right or wrong by what its plugins do, whatever they are called, and whoever has wrapped them.
import { describe, expect, test } from '@jest/globals'
import {
  allDecoders,
  bearerAuth,
  continuity,
  createClient,
  decoders,
  dedup,
  feedAccess,
  haDiscovery,
  hmacAuth,
  logging,
  type Plugin,
  rateLimit,
  retirement,
  retry,
  verify,
} from '../../index.js'
import { candles } from '../../plugins/candles/index.js'
import { marketGuard } from '../../plugins/market-guard/index.js'
import { sink } from '../../plugins/sink/index.js'
import { MemoryStore } from '../support/memory-store.js'

const signers = [1, 2, 3, 4].map(each => `0x${String(each).padStart(40, '0')}`)
const builtIns: Readonly<Record<string, () => Plugin>> = {
  logging: () => logging(),
  decoders: () => decoders(...allDecoders),
  continuity: () => continuity(),
  dedup: () => dedup(),
  verify: () => verify({ signers: { signers, f: 1 } }),
  'verify on demand': () => verify({ signers: { signers, f: 1 }, mode: 'on-demand' }),
  sink: () => sink(new MemoryStore()),
  candles: () => candles({ intervals: ['1m'] }),
  'market guard': () => marketGuard(),
  retirement: () => retirement(),
  retry: () => retry(),
  'feed access': () => feedAccess(),
  'rate limit': () => rateLimit(),
  'bearer auth': () => bearerAuth({ token: 'a-token-of-a-page' }),
  'hmac auth': () => hmacAuth({ apiKey: 'key', userSecret: 'secret' }),
  'ha discovery': () => haDiscovery(),
}
const names = Object.keys(builtIns)

/** For each plugin, what must stand below it. */
const below: Readonly<Record<string, readonly string[]>> = {
  continuity: ['dedup', 'verify', 'verify on demand'],
  dedup: ['verify', 'verify on demand'],
  ...Object.fromEntries(
    ['sink', 'candles', 'market guard'].map(name => [
      name,
      ['continuity', 'dedup', 'verify', 'verify on demand'],
    ]),
  ),
}

const isRight = (order: readonly string[]): boolean =>
  order.every((upper, at) =>
    order.slice(at + 1).every(lower => below[lower]?.includes(upper) !== true),
  )

/** Ways in which a plugin comes into a stack. */
const disguises: Readonly<Record<string, (plugin: Plugin, at: number) => Plugin>> = {
  'under its own name': plugin => plugin,
  'under another name': (plugin, at) => ({ ...plugin, ...hooksOf(plugin), name: `own-${at}` }),
  'within a plugin of others': (plugin, at) => {
    const { setup, report, call, attempt, events, decoders: own } = plugin
    return {
      name: `wrapper-${at}`,
      ...(setup && { setup: scope => setup(scope) }),
      ...(report && { report: (next, scope) => report(next, scope) }),
      ...(call && { call: next => call(next) }),
      ...(attempt && { attempt: next => attempt(next) }),
      ...(events && { events }),
      ...(own && { decoders: own }),
    }
  },
}

/** The hooks of a plugin that is an instance of a class. */
function hooksOf({ setup, report }: Plugin): Pick<Plugin, 'setup' | 'report'> {
  return { ...(setup && { setup }), ...(report && { report }) }
}

/** What a client says of these plugins. Two plugins of one name get two. */
function verdictOn(order: readonly string[], disguise: (plugin: Plugin, at: number) => Plugin) {
  const plugins = order.map((name, at) => disguise((builtIns[name] as () => Plugin)(), at))
  try {
    const urls = { endpoint: 'https://api.example', wsEndpoint: 'wss://ws.example' }
    void createClient({ ...urls, plugins }).close()
    return 'right'
  } catch (thrown) {
    const { message } = thrown as Error
    return plugins.reduce((text, { name }, at) => text.replaceAll(name, `<${at}>`), message)
  }
}

describe.each(Object.entries(disguises))('each pair of built-in plugins %s', (_how, disguise) => {
  test.each(names)('%s above each other', upper => {
    for (const lower of names.filter(name => name !== upper)) {
      if ([upper, lower].every(name => name.startsWith('verify'))) continue
      const order = [upper, lower]
      const verdict = verdictOn(order, disguise)
      if (isRight(order)) expect([order, verdict]).toEqual([order, 'right'])
      else expect(verdict).toMatch(/^<0> must stand below <1>, which \w/)
    }
  })
})

test('each order of the plugins that have a place has one verdict, whatever they are called', () => {
  const placed = ['continuity', 'dedup', 'verify', 'sink', 'candles', 'market guard']
  const verdicts = { right: 0, wrong: 0 }
  for (const order of ordersOf(placed)) {
    const all = Object.values(disguises).map(disguise => verdictOn(order, disguise))
    expect(new Set(all).size).toBe(1)
    expect([order, all[0] === 'right']).toEqual([order, isRight(order)])
    verdicts[all[0] === 'right' ? 'right' : 'wrong']++
  }
  // Sink, candles and market guard in any order, and the others in theirs below.
  expect(verdicts).toEqual({ right: 6, wrong: 714 })
})

function ordersOf(all: readonly string[]): (readonly string[])[] {
  if (all.length < 2) return [all]
  return all.flatMap(first =>
    ordersOf(all.filter(each => each !== first)).map(rest => [first, ...rest]),
  )
}
