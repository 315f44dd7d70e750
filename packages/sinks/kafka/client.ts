import type * as Kafka from '@platformatic/kafka'
import type { Admin, BaseOptions, Producer } from '@platformatic/kafka'
import { abortable, withTimeout } from 'sluice/core'
import { lazyLibrary } from '../library.js'
import { hasName, isUnknownTopic } from './errors.js'
import type { Message } from './messages.js'
import type { Settings } from './options.js'

/** The library of Kafka. */
type KafkaLibrary = typeof Kafka

/** Loads the library of Kafka. */
const loadKafka = lazyLibrary('@platformatic/kafka', () => import('@platformatic/kafka'))

/** Milliseconds between two attempts of the library. */
const RETRY_DELAY = 500
/**
 * Milliseconds for which the library repeats a request that failed, and at most half the time
 * limit.
 * A broker knows a repetition by its number, so a quick restart makes no duplicates.
 */
const PATIENCE = 10_000
/** Milliseconds that brokers get to end their connections. */
const CLOSE_TIMEOUT = 1000

/** What the producer and the administration of a cluster have in common. */
type Endable = Pick<Producer, 'close' | 'connections'>

/**
 * A connection to a cluster that was found to have the topics. After a failure it is given up:
 * which messages of the failed request are stored is not known, and a new producer has new numbers.
 */
export class KafkaClient {
  readonly #producer: Producer<Buffer, Buffer, Buffer, Buffer>
  readonly #timeout: number

  /** Connects, checks the topics, and makes those that are missing if the settings say so. */
  static async open(settings: Settings): Promise<KafkaClient> {
    const library = await loadKafka()
    await prepareTopics(library, settings)
    return new KafkaClient(library, settings)
  }

  private constructor(library: KafkaLibrary, settings: Settings) {
    const { timeout, compression } = settings
    this.#timeout = timeout
    this.#producer = new library.Producer({
      ...connectionOf(settings),
      // With fewer than two, the library repeats requests for ever.
      retries: Math.max(2, Math.floor(Math.min(PATIENCE, timeout / 2) / RETRY_DELAY)),
      idempotent: true,
      acks: library.ProduceAcks.ALL,
      compression,
      // The partitions that the Java client chooses.
      partitioner: library.compatibilityPartitioner,
    })
  }

  /** Sends messages in one request. Resolves when all replicas in sync have them. */
  async send(messages: Message[]): Promise<void> {
    await within(this.#timeout, this.#producer.send({ messages }))
  }

  /** Closes the connections. Resolves soon, even if a broker does not answer. */
  close(): Promise<void> {
    return end(this.#producer)
  }
}

function connectionOf({ brokers, clientId, tls, sasl, timeout }: Settings): BaseOptions {
  return {
    clientId,
    bootstrapBrokers: [...brokers],
    connectTimeout: Math.min(timeout, 5000),
    requestTimeout: timeout,
    retryDelay: RETRY_DELAY,
    autocreateTopics: false,
    ...(tls && { tls }),
    ...(sasl && { sasl }),
  } as BaseOptions
}

/**
 * Checks that the topics exist. The library repeats the requests of a producer also after a refused
 * login, and for a topic that does not exist. These requests are not repeated.
 */
async function prepareTopics(library: KafkaLibrary, settings: Settings): Promise<void> {
  const { topics, create, timeout } = settings
  const admin = new library.Admin({ ...connectionOf(settings), retries: 0 })
  try {
    const missing: string[] = []
    for (const topic of topics)
      if (!(await hasTopic(admin, topic, timeout, create !== undefined))) missing.push(topic)
    if (missing.length === 0) return
    await within(timeout, admin.createTopics({ topics: missing, ...create })).catch(thrown => {
      // Another sink was faster.
      if (!hasName(thrown, 'TOPIC_ALREADY_EXISTS')) throw thrown
    })
  } finally {
    await end(admin)
  }
}

/** True if the topic exists. If it does not and `mayMiss` is not set, throws. */
async function hasTopic(
  admin: Admin,
  topic: string,
  timeout: number,
  mayMiss: boolean,
): Promise<boolean> {
  try {
    await within(timeout, admin.metadata({ topics: [topic] }))
    return true
  } catch (thrown) {
    if (mayMiss && isUnknownTopic(thrown)) return false
    throw thrown
  }
}

/** Rejects if the promise has not settled after so many milliseconds. */
function within<Value>(ms: number, promise: Promise<Value>): Promise<Value> {
  const late = (): Error => new Error(`no broker has answered for ${ms / 1000} s`)
  return withTimeout(ms, late, signal => abortable(promise, signal))
}

async function end(client: Endable): Promise<void> {
  // A broker that stands still does not take the rest of a request, so its socket would not close.
  const sockets = Array.from(client.connections, ([, { socket }]) => socket)
  const closed = client.close()
  await within(CLOSE_TIMEOUT, closed).catch(() => undefined)
  for (const socket of sockets) socket?.destroy()
}
