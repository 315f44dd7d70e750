import host from 'node:process'
import type { Log } from 'sluice/core'
import { DataStreamsError } from 'sluice/core'
import type {
  ConfidentialCall,
  ConfidentialReply,
  EnclavePlugin,
} from 'sluice/plugins/confidential-http'
import { type EnclaveSettings, settingNames } from '../enclave/open-enclave.js'
import { sentOf } from '../sent.js'
import { type RenewAfter, RenewedThread } from '../thread/renewed-thread.js'
import { startThread } from '../thread/start-thread.js'
import type { CallFields } from '../thread/thread-messages.js'

/** The limit of its heap. Bodies are not on it. */
const MEMORY_MB = 512
/** Milliseconds beyond its timeout after which a request shows that the thread hangs: many may have come at once. */
const GRACE = 15_000
/** These would show secrets, or preload what could. */
const DROPPED = /^NODE_(OPTIONS|DEBUG|DEBUG_NATIVE|V8_COVERAGE)$/

/** The thread of an enclave server. It alone has the secrets: the process that listens passes calls on to it. */
export class EnclaveThread {
  readonly #thread: RenewedThread
  readonly #timeouts: { readonly default: number; readonly max: number }

  constructor(options: EnclaveSettings, renewAfter: Required<RenewAfter>, log: Log) {
    // Options that are not the enclave's may be functions, which no thread can be sent.
    const settings = Object.fromEntries(
      Object.keys(settingNames)
        .map(name => [name, options[name as keyof EnclaveSettings]])
        .filter(([, value]) => value !== undefined),
    )
    const { maxTimeout = 10_000, defaultTimeout = Math.min(5000, maxTimeout) } =
      options.limits ?? {}
    this.#timeouts = { default: defaultTimeout, max: maxTimeout }
    const env = Object.fromEntries(
      Object.entries(host.env).filter(([name]) => !DROPPED.test(name)),
    ) as Record<string, string>
    const file = new URL('../enclave/enclave-thread.js', import.meta.url)
    this.#thread = new RenewedThread(
      () => startThread({ file, settings, memoryMb: MEMORY_MB, env, log }),
      renewAfter,
    )
  }

  /** Resolves when the enclave is ready for requests; rejects with the reason why it can't be opened. */
  whenReady(): Promise<void> {
    return this.#thread.whenReady()
  }

  /** The lowest layer of the process that listens: what is below it runs in the thread. */
  plugin(): EnclavePlugin {
    return { name: 'thread', call: () => call => this.#carryOut(call) }
  }

  /** Ends the thread. */
  end(): Promise<void> {
    return this.#thread.end(new DataStreamsError('the enclave was closed', { code: 'CLOSED' }))
  }

  async #carryOut(call: ConfidentialCall): Promise<ConfidentialReply> {
    const { signal, onConnected } = call
    const { default: timeout, max } = this.#timeouts
    try {
      return await this.#thread
        .send<ConfidentialReply>(
          { type: 'call', call: fieldsOf(call) },
          Math.min(call.timeout ?? timeout, max) + GRACE,
          {
            signal,
            awaitsOutcome: true,
            ...(onConnected === undefined ? {} : { connected: onConnected }),
          },
        )
        .resultAsync()
    } catch (thrown) {
      if (sentOf(thrown)) onConnected?.()
      throw signal.aborted ? signal.reason : thrown
    }
  }
}

/** The fields that the thread is sent. Layers above it have set no headers and no rules. */
function fieldsOf(call: ConfidentialCall): CallFields {
  const { headers, signal, released, policies, connection, onConnected, scope, ...fields } = call
  return fields
}
