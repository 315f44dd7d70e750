export { type CallRules, composeCall } from './compose.js'
export {
  DataStreamsError,
  type ErrorClasses,
  type ErrorCode,
  type ErrorFacts,
  type ErrorOf,
  isStreamsError,
  ValidationError,
} from './errors.js'
export type { Handler, Hooks, Layer } from './hooks.js'
export { createLifetime, type Lifetime } from './lifetime.js'
export { createLog, type Log, type LogFunction } from './log.js'
export type { ClientScope, ScopeFacts, ServiceKey, StackEntry } from './scope.js'
export { setUp } from './set-up.js'
export { sleep } from './sleep.js'
export { checkPlugins, describeStack, type Picture, type Stack } from './stack.js'
