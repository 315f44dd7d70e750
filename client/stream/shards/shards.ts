import { loaded } from '../../loaded.js'
import type { RunningShards, ShardsParts } from './running-shards.js'
import type { Shard } from './shard.js'

/** The shards that carry a stream between them. */
export interface Shards extends RunningShards {
  /** Those in force. */
  readonly all: readonly Shard[]
  /** Loads what connects a stream. It must be loaded before shards are started or changed. */
  load(): Promise<void>
}

/** Makes the shards of a stream; at first there are none, and a stream that never connects loads nothing. */
export function createShards(parts: ShardsParts): Shards {
  let running: RunningShards | undefined
  /** Why they end, where that comes before they have started. */
  let ending: Error | undefined
  return {
    get all() {
      return parts.connections.shards
    },
    async load() {
      const { createRunningShards } = loaded(await import('./running-shards.js'))
      running = createRunningShards(parts)
    },
    start(groups) {
      running?.start(groups)
      if (ending !== undefined) running?.endAll(ending)
    },
    change: async (...change) => running?.change(...change),
    endAll(reason) {
      ending ??= reason
      running?.endAll(reason)
    },
  }
}
