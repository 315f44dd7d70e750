import { sha256 } from '../platform/sha256.js'
import { consumeOptions, type OpenConsumer } from './consumers.js'
import { LogError } from './errors.js'
import { accessLog, isAPIError, type ReportLog, readInfo, streamError } from './log.js'
import { subjectOf } from './subjects.js'

/** Which queue it is, and how long a worker has. */
export interface QueueOptions {
  readonly queue: string
  /** In seconds. */
  readonly redeliverAfter: number
}

const SECOND = 1_000_000_000
/** Reports that the workers of a queue may have and not be done with. */
const MAX_PENDING = 10_000
/** How often a report is given out: what no worker can deal with must not go round for ever. */
const MAX_DELIVERIES = 10
/** After a week without a worker the server forgets the queue. */
const FORGOTTEN_AFTER = 7 * 86_400 * SECOND
/** Messages requested ahead: a worker that dies has others wait for them. */
const AHEAD = 100

/** The consumer that all workers of a queue share: each report goes to one of them. It begins where the queue was made. */
export function openQueue(
  log: ReportLog,
  feedIDs: readonly string[],
  { queue, redeliverAfter }: QueueOptions,
): OpenConsumer {
  const subjects = [...feedIDs].sort().map(feedID => subjectOf(log.prefix, feedID))
  // Workers that read other feeds, or read them over more connections, have another consumer.
  const name = `${queue}-${sha256?.hash(subjects.join()).slice(0, 16)}`
  return async function open() {
    const { client, manager } = await accessLog(log.connection)
    await readInfo(log)
    try {
      await manager.consumers
        .add(log.stream, {
          durable_name: name,
          filter_subjects: subjects,
          ack_policy: 'explicit',
          ack_wait: redeliverAfter * SECOND,
          max_ack_pending: MAX_PENDING,
          max_deliver: MAX_DELIVERIES,
          deliver_policy: 'new',
          inactive_threshold: FORGOTTEN_AFTER,
        })
        .catch(thrown => {
          if (!isAPIError(thrown, 10_013) && !isAPIError(thrown, 10_148)) throw thrown
          throw new LogError(
            `queue ${queue} exists with other settings: its workers must agree in redeliverAfter`,
          )
        })
      const consumer = await client.consumers.get(log.stream, name)
      const messages = await consumer.consume({ ...consumeOptions, max_messages: AHEAD })
      return { messages }
    } catch (thrown) {
      throw streamError(log.stream, thrown)
    }
  }
}
