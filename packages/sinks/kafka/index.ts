import { DataStreamsError, ValidationError } from 'sluice/core'
import type { SinkBatch, SinkRefusal, SinkStore } from 'sluice/plugins/sink'
import { KafkaClient } from './client.js'
import { hasName, kafkaError } from './errors.js'
import { candleMessage, type Message, reportMessage, sizeOf } from './messages.js'
import { type KafkaOptions, readSettings, type Settings } from './options.js'

export type { KafkaLogin, KafkaOptions, KafkaSecret, KafkaTopicSettings } from './options.js'

/**
 * Bytes of messages in one request. A broker refuses a batch of more than 1,048,588 bytes, unless
 * it is set otherwise.
 */
const MAX_BYTES = 900_000

/**
 * Sends reports and candles to topics of Kafka. The package `@platformatic/kafka` must be
 * installed.
 *
 * The store keeps no position: give the stream the option `cursors`. Messages of a feed are in one
 * partition, in order, each at least once. The header `sluice-id` tells duplicates.
 *
 * @example
 * ```ts
 * sink(kafka({ brokers: 'localhost:9092', topic: 'reports' }))
 * ```
 */
export function kafka(options: KafkaOptions): SinkStore {
  return new KafkaStore(readSettings(options))
}

class KafkaStore implements SinkStore {
  readonly name: string
  readonly #settings: Settings
  #client: KafkaClient | undefined
  #maxBytes = MAX_BYTES
  /** The batch that has failed, with its messages: a repetition sends the same bytes. */
  #failed: { readonly batch: SinkBatch; readonly messages: readonly Message[] } | undefined

  constructor(settings: Settings) {
    this.name = `kafka ${settings.brokers.join(',')}/${settings.topics.join(',')}`
    this.#settings = settings
  }

  async open(): Promise<void> {
    await this.#guard('it could not be opened', async () => {
      await this.#connect()
    })
  }

  async write(batch: SinkBatch): Promise<readonly SinkRefusal[]> {
    const messages = this.#failed?.batch === batch ? this.#failed.messages : this.#messagesOf(batch)
    this.#failed = { batch, messages }
    await this.#guard('a batch could not be sent', () => this.#send(messages))
    this.#failed = undefined
    return []
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.close()
  }

  #messagesOf({ reports, receivedAt, candles }: SinkBatch): readonly Message[] {
    const { topic, candleTopic } = this.#settings
    const messages = reports.map((report, index) => reportMessage(topic, report, receivedAt[index]))
    if (candleTopic === undefined) return messages
    return [...messages, ...candles.map(candle => candleMessage(candleTopic, candle))]
  }

  /** Sends messages in requests one after the other, each as large as brokers accept. */
  async #send(messages: readonly Message[]): Promise<void> {
    let from = 0
    while (from < messages.length) {
      const part = this.#nextPart(messages, from)
      const client = await this.#connect()
      try {
        await client.send([...part])
        from += part.length
      } catch (thrown) {
        if (!isTooLarge(thrown)) throw thrown
        this.#shrink(part)
        // The numbers of its messages are in doubt.
        await this.close()
      }
    }
  }

  /** The messages of the next request: one at least. */
  #nextPart(messages: readonly Message[], from: number): readonly Message[] {
    let bytes = 0
    let end = from
    for (const message of messages.slice(from)) {
      bytes += sizeOf(message)
      if (bytes > this.#maxBytes && end > from) break
      end++
    }
    return messages.slice(from, end)
  }

  /** The topic accepts less than the request had: sends half of it from now on. */
  #shrink(part: readonly Message[]): void {
    const [first] = part
    if (part.length > 1 || first === undefined) {
      const bytes = part.reduce((sum, message) => sum + sizeOf(message), 0)
      this.#maxBytes = Math.floor(bytes / 2)
      return
    }
    throw new ValidationError(
      `${this.name}: a message of ${sizeOf(first)} bytes is too large for the topic ${first.topic}: raise its max.message.bytes`,
    )
  }

  async #connect(): Promise<KafkaClient> {
    this.#client ??= await KafkaClient.open(this.#settings)
    return this.#client
  }

  /** Gives the connection up after a failure. */
  async #guard(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (thrown) {
      await this.close()
      throw thrown instanceof DataStreamsError ? thrown : kafkaError(this.name, what, thrown)
    }
  }
}

function isTooLarge(thrown: unknown): boolean {
  return hasName(thrown, 'MESSAGE_TOO_LARGE') || hasName(thrown, 'RECORD_LIST_TOO_LARGE')
}
