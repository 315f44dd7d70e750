export { type NatsCursorsOptions, natsCursors } from './cursors.js'
export {
  type DeadLetter,
  type DeadLetterOptions,
  type DeadReason,
  readDeadLetters,
  republishDeadLetters,
} from './dead-letters.js'
export { RelayLogError } from './errors.js'
export {
  type InspectedFeed,
  type InspectedReader,
  type Inspection,
  inspectLog,
} from './inspection.js'
export { queueDeliveries } from './queue-worker.js'
export {
  createRelay,
  type Relay,
  type RelayCause,
  type RelayMetrics,
  type RelayOptions,
} from './relay.js'
export type { CreateOptions } from './stream-settings.js'
export {
  checkName as checkLogName,
  checkPrefix as checkSubjectPrefix,
  DEFAULT_PREFIX,
  DEFAULT_STREAM,
  feedsOfShare,
  type Share,
} from './subjects.js'
export { type NatsWire, type NatsWireOptions, natsWire } from './wire.js'
export { type WorkerCause, type WorkerHealthOptions, workerHealth } from './worker-health.js'
export {
  type QueuePresetOptions,
  queuePreset,
  type WorkerPresetOptions,
  workerPreset,
} from './worker-preset.js'
