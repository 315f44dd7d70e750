import type { Consumer, ConsumerInfo, JetStreamManager, JsMsg } from '@nats-io/jetstream'
import { sleep } from 'sluice/core'
import { prepareDeadLetters } from './dead-letters.js'
import { isAPIError } from './errors.js'
import { type ReportLog, timeOf } from './log.js'
import type { QueueWorker } from './queue-worker.js'
import { againSubject, feedPart, subjectOf } from './subjects.js'

/** In nanoseconds, as the server has them. */
const SECOND = 1_000_000_000
/**
 * max_ack_pending: messages that are delivered, and not acknowledged yet, by all workers of a
 * queue.
 */
const MAX_PENDING = 10_000
/** After a week without a worker the server forgets the queue. */
const FORGOTTEN_AFTER = 7 * 86_400 * SECOND
/** In so many times `redeliverAfter`, a feed that no worker reads leaves the queue. */
const LEAVES_AFTER = 10
/** Feeds about which workers may disagree at once: notes of a consumer have 128 KiB. */
const MAX_NOTES = 500
/** The beginning of the names of notes about feeds, in a consumer's metadata. */
const NOTE = 'sluice.feed.'
/**
 * Milliseconds until the feeds are looked at again, after this worker has added some: another may
 * have written at the same time.
 */
const SECOND_LOOK = 100
/** How often the feeds are looked at again at most. */
const MAX_LOOKS = 10
/** Milliseconds for which two old consumers of a queue may have brought the same. */
const OVERLAP = 2000

/** A consumer of a queue. */
export interface QueueSource {
  readonly consumer: Consumer
  /** True for a message that another consumer of the queue brings. */
  skips?(message: JsMsg): boolean
  /** True once it will bring nothing more. */
  isDrained?(): Promise<boolean>
}

/**
 * A note about a feed that some workers of a queue read and others do not, in milliseconds by the
 * clock of the log.
 */
interface Note {
  /** When a worker said last that it does not read the feed. */
  readonly disputedAt: number
  /** When a worker said last that it does. */
  readonly readAt: number
}

/**
 * The consumer that all workers of a queue share, by the queue's name: each report goes to one of
 * them. It reads each feed that one of its workers reads, and begins where the queue was made.
 */
export class Queue {
  readonly log: ReportLog
  readonly worker: QueueWorker
  #opening: Promise<readonly QueueSource[]> | undefined
  #hasBeenOpen = false
  #timer: ReturnType<typeof setInterval> | undefined

  constructor(log: ReportLog, worker: QueueWorker) {
    this.log = log
    this.worker = worker
    worker.scope.defer(() => clearInterval(this.#timer))
  }

  /** Opens the queue for a connection of the worker that is to bring these feeds. */
  open(feedIDs: readonly string[]): Promise<readonly QueueSource[]> {
    // Feeds that are about to be subscribed to are not among the stream's yet.
    const added = feedIDs.filter(feedID => !this.worker.scope.feedIDs.includes(feedID))
    if (added.length > 0) return this.#open(added)
    // Connections that open at the same time need it once.
    this.#opening ??= this.#open([]).finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #open(added: readonly string[]): Promise<readonly QueueSource[]> {
    const { scope, settings } = this.worker
    const { queue, redeliverAfter } = settings
    const { stream } = this.log
    const { config, state } = await this.log.info()
    await prepareDeadLetters(this.log, config.num_replicas)
    return this.log.ask(async ({ client, manager }) => {
      const subjects = this.#subjects(added)
      if (await this.#create(manager, subjects, state.last_seq + 1))
        await this.#join(manager, subjects)
      this.#hasBeenOpen = true
      this.#timer ??= setInterval(() => void this.#agreeAgain(manager), 500 * redeliverAfter)
      this.#timer.unref?.()
      const own = await manager.consumers.info(stream, queue)
      const old = await findOld(manager, stream, queue)
      for (const { name, num_pending, num_ack_pending } of old)
        scope.log.warn?.(
          `queue ${queue}: ${num_pending + num_ack_pending} reports of its former consumer ${name} are drained`,
        )
      const sources = [
        ...old.map(each => drain(manager, this.log, each, [...old, own])),
        { name: queue },
      ]
      return Promise.all(
        sources.map(async ({ name, ...source }) => ({
          ...source,
          consumer: await client.consumers.get(stream, name),
        })),
      )
    })
  }

  /** The subjects of the worker's feeds, and the subject of reports that are published again. */
  #subjects(added: readonly string[] = []): readonly string[] {
    const { prefix } = this.log
    const { scope, settings } = this.worker
    const own = [...scope.feedIDs, ...added].map(feedID => subjectOf(prefix, feedID))
    return [...own, againSubject(prefix, settings.queue, '*')].sort()
  }

  /** Creates the consumer of the queue; true if there is one already, with other settings. */
  async #create(
    manager: JetStreamManager,
    subjects: readonly string[],
    start: number,
  ): Promise<boolean> {
    const { queue, redeliverAfter } = this.worker.settings
    try {
      await manager.consumers.add(this.log.stream, {
        durable_name: queue,
        filter_subjects: [...subjects],
        ack_policy: 'explicit',
        ack_wait: redeliverAfter * SECOND,
        max_ack_pending: MAX_PENDING,
        // The workers count: the server would forget what it has given out too often.
        max_deliver: -1,
        deliver_policy: 'by_start_sequence',
        opt_start_seq: start,
        inactive_threshold: FORGOTTEN_AFTER,
      })
      return false
    } catch (thrown) {
      if (isAPIError(thrown, 'otherSettings')) return true
      throw thrown
    }
  }

  /** Has the queue read this worker's feeds. */
  async #join(manager: JetStreamManager, subjects: readonly string[]): Promise<void> {
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      if (!(await this.#agree(manager, subjects, !this.#hasBeenOpen))) return
      await sleep(SECOND_LOOK, this.worker.scope.signal)
    }
  }

  async #agreeAgain(manager: JetStreamManager): Promise<void> {
    const { scope, settings } = this.worker
    try {
      await this.#agree(manager, this.#subjects(), false)
    } catch (thrown) {
      scope.log.warn?.(`queue ${settings.queue} could not be looked at: ${String(thrown)}`)
    }
  }

  /**
   * Compares the feeds of the queue with those of the worker, and has it read these, too. A feed
   * that only other workers read is noted, and its readers answer; without an answer it leaves the
   * queue. True if feeds were added.
   */
  async #agree(
    manager: JetStreamManager,
    ownSubjects: readonly string[],
    isStart: boolean,
  ): Promise<boolean> {
    const { log, worker } = this
    const { queue, redeliverAfter } = worker.settings
    const info = await manager.consumers.info(log.stream, queue)
    const now = timeOf(info)
    const leaves = 1000 * LEAVES_AFTER * redeliverAfter
    const own = new Set(ownSubjects)
    const subjects = new Set(info.config.filter_subjects)
    const notes = readNotes(info)
    const added = [...own].filter(subject => !subjects.has(subject))
    const gone: string[] = []
    let isChanged = added.length > 0
    for (const subject of added) subjects.add(subject)

    function note(feedID: string, value: Note | undefined): void {
      isChanged = true
      if (value === undefined) notes.delete(feedID)
      else notes.set(feedID, value)
    }

    for (const subject of subjects) {
      const feedID = feedPart(subject)
      const known = notes.get(feedID)
      if (own.has(subject)) {
        if (known === undefined) continue
        if (now - known.disputedAt > leaves) note(feedID, undefined)
        else if (now - known.readAt > leaves / 4) note(feedID, { ...known, readAt: now })
      } else if (known === undefined) {
        if (notes.size < MAX_NOTES) note(feedID, { disputedAt: now, readAt: now })
      } else if (now - known.readAt > leaves) {
        note(feedID, undefined)
        subjects.delete(subject)
        gone.push(feedID)
      } else if (now - known.disputedAt > leaves / 4) note(feedID, { ...known, disputedAt: now })
    }
    const ackWait = isStart ? ackWaitOf(info, redeliverAfter) : secondsOf(info)
    const isOther = ackWait !== secondsOf(info)
    worker.hand.ackWait = ackWait
    if (isChanged || isOther) {
      const after = await manager.consumers.update(log.stream, queue, {
        filter_subjects: [...subjects],
        metadata: withNotes(info, notes),
        ...(isOther ? { ack_wait: ackWait * SECOND } : {}),
      })
      const left = info.num_pending - after.num_pending
      if (gone.length > 0)
        worker.say(
          `queue ${queue} no longer reads ${gone.length} feeds, which no worker has read for ${leaves / 1000} s: ${gone.join(', ')}; about ${Math.max(0, left)} of their reports were not given out`,
        )
    }
    const unread = (feedID: string): boolean => !subjects.has(subjectOf(log.prefix, feedID))
    worker.left = new Set([...worker.left, ...worker.disputed].filter(unread))
    sayForeign(worker, [...notes.keys()], new Set([...own].map(feedPart)))
    return added.length > 0
  }
}

function secondsOf({ config: { ack_wait = 0 } }: ConsumerInfo): number {
  return ack_wait / SECOND
}

/**
 * The time until another worker gets a message: the longest of all workers, since a worker with a
 * long time reports progress less often. A worker that is alone sets its own.
 */
function ackWaitOf(info: ConsumerInfo, redeliverAfter: number): number {
  const isAlone = info.num_waiting === 0 && info.num_ack_pending === 0
  return isAlone ? redeliverAfter : Math.max(redeliverAfter, secondsOf(info))
}

/** Says once that workers of a queue read other feeds. */
function sayForeign(
  worker: QueueWorker,
  disputed: readonly string[],
  own: ReadonlySet<string>,
): void {
  const before = worker.disputed
  worker.disputed = new Set(disputed)
  const foreign = disputed.filter(feedID => !own.has(feedID))
  if (foreign.every(feedID => before.has(feedID))) return
  worker.say(
    `queue ${worker.settings.queue} has ${foreign.length} feeds that this worker does not read, such as ${foreign[0]}: it hands their reports back`,
  )
}

function readNotes({ config: { metadata = {} } }: ConsumerInfo): Map<string, Note> {
  const notes = new Map<string, Note>()
  for (const [key, value] of Object.entries(metadata)) {
    if (!key.startsWith(NOTE)) continue
    const [disputedAt = 0, readAt = 0] = value.split(',').map(Number)
    notes.set(key.slice(NOTE.length), { disputedAt, readAt })
  }
  return notes
}

/** The metadata of a consumer, with other notes. */
function withNotes(
  { config: { metadata = {} } }: ConsumerInfo,
  notes: ReadonlyMap<string, Note>,
): Record<string, string> {
  const others = Object.entries(metadata).filter(([key]) => !key.startsWith(NOTE))
  const written = Array.from(notes, ([id, { disputedAt, readAt }]) => [
    NOTE + id,
    `${disputedAt},${readAt}`,
  ])
  return Object.fromEntries([...others, ...written])
}

/**
 * Consumers of former versions, which had a hash of their feeds in the name; the first to be made
 * is the first.
 */
async function findOld(
  manager: JetStreamManager,
  stream: string,
  queue: string,
): Promise<readonly ConsumerInfo[]> {
  const old: ConsumerInfo[] = []
  for await (const info of manager.consumers.list(stream)) {
    const { name } = info
    const isOld =
      name.startsWith(`${queue}-`) && /^[0-9a-f]{16}$/.test(name.slice(queue.length + 1))
    if (isOld && !filtersOf(info).some(subject => subject.endsWith('-drained.none'))) old.push(info)
  }
  return old.sort((a, b) => Date.parse(a.created) - Date.parse(b.created))
}

function filtersOf({ config }: ConsumerInfo): readonly string[] {
  return (
    config.filter_subjects ?? (config.filter_subject === undefined ? [] : [config.filter_subject])
  )
}

/**
 * Takes what an old consumer has left: what a later one of the queue has brought, or will bring, is
 * left to that. In the end it is given a subject that nothing has, so that the server forgets it in
 * time.
 */
function drain(
  manager: JetStreamManager,
  log: ReportLog,
  old: ConsumerInfo,
  all: readonly ConsumerInfo[],
): Omit<QueueSource, 'consumer'> & { readonly name: string } {
  const start = all.at(-1)?.config.opt_start_seq ?? 1
  const later = all.slice(all.indexOf(old) + 1, -1).map(info => ({
    subjects: new Set(filtersOf(info)),
    // An old one began when it was made.
    from: Date.parse(info.created) + OVERLAP,
  }))

  return {
    name: old.name,
    skips({ subject, info: { streamSequence, timestampNanos } }: JsMsg) {
      if (streamSequence >= start) return true
      for (const { from, subjects } of later)
        if (timestampNanos / 1e6 >= from && subjects.has(subject)) return true
      return false
    },
    async isDrained() {
      const info = await manager.consumers.info(log.stream, old.name)
      const { num_ack_pending, num_pending, delivered } = info
      const isPast = num_pending === 0 || delivered.stream_seq >= start - 1
      if (!isPast || num_ack_pending > 0) return false
      await manager.consumers.update(log.stream, old.name, {
        // A subject that nothing has.
        filter_subjects: [`${log.prefix}.${old.name}-drained.none`],
      })
      return true
    },
  }
}
