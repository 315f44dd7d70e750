export type { SinkBatch, SinkOpening, SinkPosition, SinkRefusal, SinkStore } from './store.js'
