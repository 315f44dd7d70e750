export {
  type Attributes,
  labelName,
  type Metric,
  type MetricKind,
  type MetricName,
  metrics,
  prometheusName,
} from './metrics.js'
export type { Observation } from './sums.js'
export {
  type AddValue,
  createTelemetry,
  failureAttributes,
  requestAttributes,
  statusOf,
  type Telemetry,
  type TelemetryHooks,
  type WatchOptions,
} from './telemetry.js'
