export {
  Health,
  type HealthOptions,
  type Measure,
  type Problem,
  type Severity,
} from './health.js'
export { type HealthServer, type ServeHealthOptions, serveHealth } from './serve-health.js'
export { type SinkCause, type SinkHealthOptions, sinkHealth } from './sink-health.js'
export {
  type StreamCause,
  type StreamHealthOptions,
  streamCauses,
  streamHealth,
  type WatchStreamOptions,
  watchStream,
} from './stream-health.js'
