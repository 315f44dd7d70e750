import type { MessagePort } from 'node:worker_threads'
import type { Log } from '../../core/log.js'

/** What a thread is started with. */
export interface ThreadData<Settings> {
  readonly settings: Settings
  /** Where it listens and answers. */
  readonly port: MessagePort
  /** One Int32, counted up with every message: the calling thread sleeps on it. */
  readonly messages: SharedArrayBuffer
  /** The log levels somebody listens to. */
  readonly levels: readonly (keyof Log)[]
}
