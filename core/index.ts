export { abortable } from './abortable.js'
export { type CallRules, composeCall } from './compose.js'
export { createDeferred, type Deferred } from './deferred.js'
export {
  asError,
  DataStreamsError,
  type ErrorClasses,
  type ErrorCode,
  type ErrorFacts,
  type ErrorOf,
  isStreamsError,
  ValidationError,
} from './errors.js'
export type { Handler, Hooks, Layer } from './hooks.js'
export { kindOf } from './kind.js'
export { createLifetime, type Lifetime } from './lifetime.js'
export { createLog, type Log, type LogFunction } from './log.js'
export { onAbort } from './on-abort.js'
export {
  checkBoolean,
  checkFunction,
  checkNumber,
  checkObject,
  checkOptions,
  checkSignal,
  checkText,
  MAX_TIMER,
  type NoOptions,
  type OptionNames,
} from './options.js'
export type { ClientScope, ScopeFacts, ServiceKey, StackEntry } from './scope.js'
export { createSemaphore, type Semaphore } from './semaphore.js'
export { setUp } from './set-up.js'
export { sleep } from './sleep.js'
export {
  checkPlugins,
  describeStack,
  engineMembers,
  type Picture,
  type PluginMembers,
  type Stack,
} from './stack.js'
export { adviseName } from './unknown-name.js'
