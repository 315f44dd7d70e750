// Copies of the built-in plugins, each with one fault.
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join, relative, resolve } from 'node:path'
import type { Plugin } from '../../client/contract/plugin.js'
import { type PluginTestOptions, sampleSigners } from '../../testing/index.js'
import { root } from '../support/sources.js'

/** A fault in a copy of a built-in plugin. */
export interface PlantedFault {
  /** The file with the fault, below `plugins/`. */
  readonly file: string
  readonly what: string
  /** The text of the source, and the text in its place. */
  readonly change: readonly [string, string]
  /** A second change. */
  readonly also?: readonly [string, string]
  /** The rule that the kit has to name, and the scenario in which it has to find the fault. */
  readonly rule: string
  readonly scenario: string
}

interface Tested {
  readonly factory: string
  readonly options?: unknown
  readonly kit?: PluginTestOptions
}

/** How each plugin is made and tested. */
export const tested: Readonly<Record<string, Tested>> = {
  'bearer-auth': { factory: 'bearerAuth', options: { token: 'token' } },
  'hmac-auth': { factory: 'hmacAuth', options: { apiKey: 'key', userSecret: 'secret' } },
  'feed-access': { factory: 'feedAccess' },
  retirement: { factory: 'retirement', options: { after: 0 } },
  'rate-limit': { factory: 'rateLimit', options: { requests: 1, per: 1000 } },
  logging: {
    factory: 'logging',
    options: { logger: { debug() {}, info() {}, warn() {}, error() {} }, logLevel: 0 },
  },
  retry: { factory: 'retry', kit: { may: ['repeat'] } },
  dedup: { factory: 'dedup', kit: { may: ['drop'] } },
  continuity: {
    factory: 'continuity',
    options: { order: 'sorted' },
    kit: { may: ['add', 'delay', 'reorder'] },
  },
  'ha-discovery': { factory: 'haDiscovery', kit: { may: ['repeat'] } },
  verify: {
    factory: 'verify',
    options: { signers: sampleSigners },
    kit: { may: ['delay', 'drop'], signed: true },
  },
  opentelemetry: { factory: 'opentelemetry' },
  prometheus: { factory: 'prometheus' },
}

export const plantedFaults: readonly PlantedFault[] = [
  {
    file: 'rate-limit.ts',
    what: 'it returns no reply',
    change: [
      'return isShared ? replies.take(call, send) : send(call)',
      'await (isShared ? replies.take(call, send) : send(call))\n      return undefined as never',
    ],
    rule: 'reply',
    scenario: 'requests',
  },
  {
    file: 'rate-limit.ts',
    what: 'it forgets old endpoints by an interval that nobody ends',
    change: [
      'const endpoints = new Map<string, Endpoint>()',
      'const endpoints = new Map<string, Endpoint>()\n    setInterval(() => endpoints.clear(), 60_000).unref()',
    ],
    rule: 'timer',
    scenario: 'requests',
  },
  {
    file: 'rate-limit.ts',
    what: 'a request that waits is forgotten',
    change: ['next.shift()?.(slot)', 'next.shift()'],
    rule: 'settle',
    scenario: 'requests',
  },
  {
    file: 'rate-limit.ts',
    what: 'a request that waits goes on after its abort',
    change: [
      'waiting.splice(waiting.indexOf(go), 1)\n        this.#serve()\n        reject(signal.reason)',
      'this.#serve()',
    ],
    rule: 'abort',
    scenario: 'requests that are aborted',
  },
  {
    file: 'retry/index.ts',
    what: 'it sleeps through an abort, and sends again',
    change: [
      'await sleep(delay, signal)',
      'await new Promise(resolve => setTimeout(resolve, delay))',
    ],
    rule: 'abort',
    scenario: 'requests that are aborted',
  },
  {
    file: 'retry/index.ts',
    what: 'the last error is swallowed',
    change: ['> maxRetryAfter) throw error', '> maxRetryAfter) return undefined as never'],
    rule: 'reply',
    scenario: 'requests that fail',
  },
  {
    file: 'retry/reconnect.ts',
    what: 'it does not say that the connection is open',
    change: ['      onOpen()\n', ''],
    rule: 'settle',
    scenario: 'a stream',
  },
  {
    file: 'dedup.ts',
    what: 'all streams share what was seen',
    change: [
      'const feeds = seenIn(scope)\n',
      'seenByAll ??= seenIn(scope)\n  const feeds = seenByAll\n',
    ],
    rule: 'streams',
    scenario: 'streams side by side, of two clients',
  },
  {
    file: 'dedup.ts',
    what: 'it delivers a report twice',
    change: [
      'seen.cache(report, feeds.hasDuplicates)\n      next(report)',
      'seen.cache(report, feeds.hasDuplicates)\n      next(report)\n      next(report)',
    ],
    rule: 'duplicate',
    scenario: 'a stream',
  },
  {
    file: 'dedup.ts',
    what: 'it delivers a copy without methods',
    change: [
      'hasDuplicates)\n      next(report)',
      'hasDuplicates)\n      next({ ...report } as never)',
    ],
    rule: 'change',
    scenario: 'a stream',
  },
  {
    file: 'dedup.ts',
    what: 'it hides the errors of the plugin above',
    change: [
      'hasDuplicates)\n      next(report)',
      'hasDuplicates)\n      try { next(report) } catch {}',
    ],
    rule: 'hide',
    scenario: 'a plugin above that throws',
  },
  {
    file: 'dedup.ts',
    what: 'it delivers in a promise',
    change: [
      'hasDuplicates)\n      next(report)',
      'hasDuplicates)\n      Promise.resolve().then(() => next(report)).catch(() => undefined)',
    ],
    rule: 'delay',
    scenario: 'a stream',
  },
  {
    file: 'dedup.ts',
    what: 'it delivers something after the stream was closed',
    change: [
      'hasDuplicates)\n      next(report)',
      'hasDuplicates)\n      next(report)\n      scope.signal.addEventListener("abort", () => setTimeout(() => next(report), 50))',
    ],
    rule: 'after-close',
    scenario: 'a stream',
  },
  {
    file: 'bearer-auth.ts',
    what: 'it answers with the reply to another call',
    change: [
      'return next(call)',
      "if (call.kind === 'stream') return next(call)\n        return (kept ??= next(call))",
    ],
    rule: 'own-reply',
    scenario: 'requests',
  },
  {
    file: 'bearer-auth.ts',
    what: 'it sends each call twice',
    change: [
      'return next(call)',
      "if (call.kind === 'request') await next(call)\n        return next(call)",
    ],
    rule: 'repeat',
    scenario: 'requests',
  },
  {
    file: 'bearer-auth.ts',
    what: 'it gives a request up after five seconds, and lets it go on',
    change: [
      'return next(call)',
      'return Promise.race([next(call), abortable(new Promise<never>((_, reject) => { const timer = setTimeout(() => reject(new Error("late")), 5000); call.signal.addEventListener("abort", () => clearTimeout(timer)) }), call.signal)])',
    ],
    rule: 'abort',
    scenario: 'requests that fail',
  },
  {
    file: 'verify/stream-stage.ts',
    what: 'an injected report is not waited for',
    change: ['this.#scope.waitUntil(deferred.promise, report)', 'deferred.promise.catch(() => 0)'],
    rule: 'wait',
    scenario: 'a stream',
  },
  {
    file: 'hmac-auth/index.ts',
    what: 'it sends again by itself after a rejection',
    change: ['throw corrected(error)', 'return next(call)'],
    rule: 'repeat',
    scenario: 'requests that fail',
  },
  {
    file: 'hmac-auth/index.ts',
    what: 'it listens to the process for ever',
    change: [
      'scope.provide(signingClock',
      "process.on('SIGUSR2', () => undefined)\n      scope.provide(signingClock",
    ],
    rule: 'listener',
    scenario: 'requests',
  },
  {
    file: 'hmac-auth/index.ts',
    what: 'each call leaves a listener on the signal of the client',
    change: ['scope.provide(signingClock', 'scopeOf = scope\n      scope.provide(signingClock'],
    also: [
      'const { keys } = keyring',
      "const { keys } = keyring\n      scopeOf?.signal.addEventListener('abort', () => undefined)",
    ],
    rule: 'listener',
    scenario: 'requests',
  },
  {
    file: 'logging/index.ts',
    what: 'the error of an attempt ends in the log',
    change: ['      throw thrown\n', '      return undefined as never\n'],
    rule: 'reply',
    scenario: 'requests that fail',
  },
  {
    file: 'logging/index.ts',
    what: 'it changes a field of a report',
    change: [
      '    next(report)',
      '    ;(report as { feedID: string }).feedID = report.feedID.toUpperCase()\n    next(report)',
    ],
    rule: 'mutate',
    scenario: 'requests',
  },
  {
    file: 'logging/index.ts',
    what: 'it loses the reports of a version',
    change: ['    next(report)', "    if (!report.feedID.startsWith('0x0007')) next(report)"],
    rule: 'drop',
    scenario: 'a stream',
  },
  {
    file: 'logging/index.ts',
    what: 'it leaves a rejected promise',
    change: [
      '    next(report)',
      "    void Promise.reject(new Error('the disk is full'))\n    next(report)",
    ],
    rule: 'throws',
    scenario: 'requests',
  },
  {
    file: 'logging/index.ts',
    what: 'it throws for some reports',
    change: [
      '    next(report)',
      "    if (report.feedID.startsWith('0x0009')) throw new Error('no name')\n    next(report)",
    ],
    rule: 'throws',
    scenario: 'a stream',
  },
  {
    file: 'logging/index.ts',
    what: 'one report stays until the next comes',
    change: [
      '    next(report)',
      '    const before = heldBack\n    heldBack = report\n    if (before !== undefined) next(before)',
    ],
    rule: 'delay',
    scenario: 'requests',
  },
  {
    file: 'feed-access.ts',
    what: 'it never ends a rejected upgrade',
    change: [
      'const findings = await examine(call)',
      'const findings = await new Promise<never>(() => undefined)',
    ],
    rule: 'settle',
    scenario: 'a stream that gives up',
  },
  {
    file: 'continuity/index.ts',
    what: 'the timers of a closed stream stay',
    change: ['      feed?.cancel?.()\n', ''],
    rule: 'timer',
    scenario: 'a stream',
  },
  {
    file: 'continuity/index.ts',
    what: 'a report that waits in sorted order waits for ever',
    change: [
      'if (!isFree && feed.heldSince > since && held.length <= reorderBuffer) return',
      "if (first.report.feedID.startsWith('0x0009')) return",
    ],
    rule: 'hold',
    scenario: 'a stream',
  },
  {
    file: 'continuity/index.ts',
    what: 'reports that wait are lost when the stream ends',
    change: ["scope.defer(scope.events.on('ending', giveUpAll))", ''],
    rule: 'ending',
    scenario: 'a stream that gives up',
  },
  {
    file: 'continuity/index.ts',
    what: 'all streams share their feeds, and reports end in another stream',
    change: [
      'const feeds = new Map<string, Feed>()',
      'sinkOfAll ??= next\n  const first = sinkOfAll\n  next = report => first(report)\n  const feeds = new Map<string, Feed>()',
    ],
    rule: 'streams',
    scenario: 'streams side by side, of two clients',
  },
  {
    file: 'ha-discovery/fan-out.ts',
    what: 'a connection outlives its stream',
    change: [
      'const life = createLifetime(signal)\n      const branch',
      'const life = createLifetime()\n      const branch',
    ],
    rule: 'connection',
    scenario: 'a stream',
  },
  {
    file: 'ha-discovery/fan-out.ts',
    what: 'it does not say that a connection is open',
    change: ["opened.resolve({ kind: 'stream', ended: ended.promise })", ''],
    rule: 'settle',
    scenario: 'a stream',
  },
  {
    file: 'verify/stream-stage.ts',
    what: 'an injected report is never settled',
    change: [
      '    this.#settleInjected(report)\n  }\n\n  /** Makes `inject` wait',
      '  }\n\n  /** Makes `inject` wait',
    ],
    rule: 'settle',
    scenario: 'a stream',
  },
  {
    file: 'opentelemetry/index.ts',
    what: 'it sends a call for its span, and once more',
    change: [
      'call: next => traced.call(measured.call(next)),',
      'call: next => async call => {\n      await traced.call(measured.call(next))(call)\n      return next(call)\n    },',
    ],
    rule: 'repeat',
    scenario: 'requests',
  },
  {
    file: 'prometheus.ts',
    what: 'it returns no reply',
    change: [
      "watch('prometheus', { feedIDs }) }",
      "watch('prometheus', { feedIDs }),\n    attempt: next => async call => void (await next(call)) as never }",
    ],
    rule: 'reply',
    scenario: 'requests',
  },
]

/** Declarations at the top of a file that planted faults use. */
const declarations = ['seenByAll', 'kept', 'heldBack', 'sinkOfAll', 'scopeOf'].map(
  name => `let ${name}: any`,
)

const specifier = /(from |import\()'(\.{1,2}\/[^']+)'/g

/** The text of the file with its fault. */
export function withFault({ file, change, also }: PlantedFault): string {
  let text = readFileSync(join(root, 'plugins', file), 'utf8')
  for (const [old, replacement] of also === undefined ? [change] : [change, also]) {
    if (!text.includes(old)) throw new Error(`${file} has no ${JSON.stringify(old)}`)
    text = text.replace(old, () => replacement)
  }
  return `${text}\n${declarations.join('\n')}\n`
}

/** Writes a copy of a plugin with a fault into a folder, and returns the file with its factory. */
export function plant(fault: PlantedFault, folder: string): string {
  const { file } = fault
  const [name] = file.split('/') as [string]
  const from = join(root, 'plugins', name)
  const isFolder = !name.endsWith('.ts')
  const to = join(folder, name)
  mkdirSync(folder, { recursive: true })
  cpSync(from, to, { recursive: true })
  const files = isFolder
    ? readdirSync(to, { recursive: true, encoding: 'utf8' }).filter(each => each.endsWith('.ts'))
    : ['']
  for (const each of files) {
    const [source, copy] = [join(from, each), join(to, each)]
    const place = relative(from, source)
    const isFaulty = join(name, place) === join(file)
    let text = isFaulty ? withFault(fault) : readFileSync(source, 'utf8')
    text = text.replace(specifier, (all, before, path) => {
      const target = resolve(dirname(source), path)
      if (isFolder && target.startsWith(`${from}/`)) return all
      const way = relative(dirname(copy), target)
      return `${before}'${way.startsWith('.') ? way : `./${way}`}'`
    })
    writeFileSync(copy, text)
  }
  return isFolder ? join(to, 'index.ts') : to
}

/** Loads a planted copy. */
export async function loadPlanted(fault: PlantedFault, folder: string): Promise<() => Plugin> {
  const path = plant(fault, folder)
  const name = basename(fault.file.split('/')[0] as string, '.ts')
  const { factory, options } = tested[name] as Tested
  const module = (await import(path)) as Record<string, (options?: unknown) => Plugin>
  return () => (module[factory] as (options?: unknown) => Plugin)(options)
}
