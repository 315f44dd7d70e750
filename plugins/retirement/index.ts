import type { Plugin } from '../../client/contract/plugin.js'
import { retirementKey } from '../../client/contract/scope.js'
import { MAX_TIMER, number, readOptions, type Schema, withDefault } from '../../core/options.js'
import type { RetirementEvents } from './watch.js'

export type { RetirementEvents, RetiringFeed } from './watch.js'

/** Options of `retirement`. */
export interface RetirementOptions {
  /** Milliseconds from the first connection of a stream to the first request. @default 10000 */
  readonly after?: number
  /** Milliseconds between two requests. @default 3600000 */
  readonly every?: number
}

const schema = {
  after: withDefault(10_000, number({ min: 0, max: MAX_TIMER })),
  every: withDefault(3_600_000, number({ min: 1000, max: MAX_TIMER })),
} satisfies Schema<RetirementOptions>

/**
 * Warns of feeds that the service is going to retire: by the log, and by the event `retiring` of
 * the stream. It asks the catalogue once an hour while a stream is open. A service without a
 * catalogue is no error.
 */
export function retirement(options?: RetirementOptions): Plugin<never, RetirementEvents> {
  const { after, every } = readOptions('retirement', options, schema)
  return {
    name: 'retirement',
    events: ['retiring'],
    setup(scope) {
      scope.provide(retirementKey, new Set())
    },
    report(next, scope) {
      if (scope.kind === 'request') return next
      let cancel: (() => void) | undefined
      const begin = (): void => {
        if (cancel !== undefined || scope.connections.open === 0) return
        cancel = scope.client.timing.after(after, () => {
          import('./watch.js').then(({ watch }) => watch(scope, every)).catch(() => undefined)
        })
      }
      scope.defer(scope.connections.watch(begin))
      scope.defer(() => cancel?.())
      return next
    },
  }
}
