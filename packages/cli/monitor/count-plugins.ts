import type { Layer, Plugin, Plugins, Stage } from 'sluice/client'

/** What has passed a plugin. */
export interface PluginCounts {
  /** Reports that came to it from below; undefined where it has no stage. */
  readonly reports: { in: number; out: number } | undefined
  /** Calls that came to it from above; undefined where it has no layer. */
  readonly calls: { made: number; failed: number } | undefined
}

/** The same stack, each plugin with a counter on either side of it. A name stands once in a stack. */
export function countPlugins<Data>(plugins: readonly Plugin<Data>[]): {
  readonly plugins: readonly Plugin<Data>[]
  readonly counts: ReadonlyMap<string, PluginCounts>
}
export function countPlugins(plugins: Plugins): {
  readonly plugins: Plugins
  readonly counts: ReadonlyMap<string, PluginCounts>
} {
  const counts = new Map<string, PluginCounts>()
  const counted = plugins.map((plugin): Plugin => {
    const { name, report, call, attempt } = plugin
    const reports = report && { in: 0, out: 0 }
    const calls = (call ?? attempt) && { made: 0, failed: 0 }
    counts.set(name, { reports, calls })
    return {
      ...plugin,
      ...(report && reports && { report: countReports(report, reports) }),
      ...(call && calls && { call: countCalls(call, calls) }),
      ...(attempt && calls && { attempt: countCalls(attempt, calls) }),
    }
  })
  return { plugins: counted, counts }
}

function countReports(stage: Stage, counts: { in: number; out: number }): Stage {
  return function countStage(next, scope) {
    // What a request brings is not of the stream.
    if (scope.kind === 'request') return stage(next, scope)
    const inner = stage(function countOut(report) {
      counts.out++
      next(report)
    }, scope)
    return function countIn(report) {
      counts.in++
      inner(report)
    }
  }
}

function countCalls(layer: Layer, counts: { made: number; failed: number }): Layer {
  return function countLayer(next) {
    const inner = layer(next)
    return async function countCall(call) {
      counts.made++
      try {
        return await inner(call)
      } catch (error) {
        counts.failed++
        throw error
      }
    }
  }
}
