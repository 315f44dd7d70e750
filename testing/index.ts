/**
 * Tests for whoever writes a plugin, a decoder, a logger, a store or a source of signers. No
 * program needs this entry.
 */
export { ConformanceError, type Fault } from './faults.js'
export {
  type SampleReport,
  type SampleReportOptions,
  sampleDigest,
  sampleReport,
  sampleSigners,
} from './reports.js'
export {
  type CursorStoreTestOptions,
  type CursorStoreTestResult,
  testCursorStore,
} from './test-cursor-store.js'
export {
  type DecoderSample,
  type DecoderTestOptions,
  type DecoderTestResult,
  testDecoder,
} from './test-decoder.js'
export { type LoggerTestOptions, type LoggerTestResult, testLogger } from './test-logger.js'
export {
  type Allowance,
  type PluginTestOptions,
  type PluginTestResult,
  type SampleWire,
  testPlugin,
} from './test-plugin.js'
export {
  type SignedSample,
  type SignersTestOptions,
  type SignersTestResult,
  testSigners,
} from './test-signers.js'
export {
  type SinkTestOptions,
  type SinkTestResult,
  type StoredCandle,
  type StoredReport,
  testSink,
} from './test-sink.js'
