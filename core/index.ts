export {
  abortable,
  asyncDispose,
  createDeferred,
  createSemaphore,
  type Deferred,
  onAbort,
  type Semaphore,
  sleep,
} from './async.js'
export { BoundedMap } from './bounded-map.js'
export type { Clock, Timing } from './clock.js'
export { type CallRules, composeCall } from './compose.js'
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
export { lazy } from './lazy.js'
export { createLifetime, type Lifetime, withTimeout } from './lifetime.js'
export { createLog, type Log, type LogFunction } from './log.js'
export {
  adviseName,
  type Checked,
  checkBoolean,
  checkFunction,
  checkNumber,
  checkObject,
  checkOptions,
  checkSignal,
  checkText,
  kindOf,
  MAX_TIMER,
  type NoOptions,
  type NumberRule,
  number,
  type OptionNames,
  oneOf,
  optional,
  type Rule,
  readOptions,
  type Schema,
  unchecked,
  withDefault,
} from './options.js'
export type {
  ClientScope,
  ScopeFacts,
  ServiceKey,
  StackEntry,
} from './scope.js'
export {
  checkPlugins,
  describeStack,
  engineMembers,
  type Handler,
  type Hooks,
  type Layer,
  type Picture,
  type PluginMembers,
  type Stack,
  setUp,
} from './stack.js'
