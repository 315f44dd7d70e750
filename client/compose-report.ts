import { checkMade } from '../core/compose.js'
import { ValidationError } from '../core/errors.js'
import type { Plugins, Sink } from './plugin.js'
import type { RequestScope, StreamScope } from './scope.js'

/** The sink that takes a report from the wire through every `report` stage to `sink`. */
export function composeReport(
  plugins: Plugins,
  sink: Sink,
  scope: StreamScope | RequestScope,
): Sink {
  return plugins.reduce((next, plugin) => {
    if (plugin.report === undefined) return next
    const stage = checkMade(plugin.name, 'report', plugin.report(next, scope))
    if (stage.constructor.name !== 'AsyncFunction') return stage
    throw new ValidationError(
      `plugin ${plugin.name}: report must return a function that is not async`,
    )
  }, sink)
}
