import type {
  Consumer,
  ConsumerInfo,
  JetStreamManager,
  JsMsg,
  StreamInfo,
} from '@nats-io/jetstream'
import { sleep } from 'sluice/core'
import { prepareDeadLetters } from './dead-letters.js'
import { createErrorLimit } from './errors.js'
import { type ReportLog, timeOf } from './log.js'
import type { QueueWorker } from './queue-worker.js'
import { isAPIError } from './refusals.js'
import { againSubject, feedPart, subjectOf } from './subjects.js'

/** One second in nanoseconds, the unit of the server's settings. */
const SECOND = 1_000_000_000
/**
 * `max_ack_pending`: how many messages of a queue may be delivered but not yet acknowledged, over
 * all workers.
 */
const MAX_PENDING = 10_000
/** `inactive_threshold`: the server removes a queue that has had no worker for a week. */
const FORGOTTEN_AFTER = 7 * 86_400 * SECOND
/** A feed that no worker reads leaves the queue after this many times `redeliverAfter`. */
const LEAVES_AFTER = 10
/**
 * For how many feeds a consumer has notes at most. The server limits a consumer's metadata to 128
 * KiB.
 */
const MAX_NOTES = 500
/** The prefix of the keys of notes in a consumer's metadata. The feed's id follows. */
const NOTE = 'sluice.feed.'
/**
 * Milliseconds until a worker that has added feeds checks the queue's feeds again. Another worker
 * may have written at the same time.
 */
const SECOND_LOOK = 100
/** How often the queue's feeds are checked in a row at most. */
const MAX_LOOKS = 10
/** Milliseconds until a worker says again that the queue can't be looked at. */
const NOT_AGAIN_FOR = 60_000
/** A consumer that was created within this many milliseconds counts as new. */
const NEW_FOR = 5000
/** Milliseconds during which two old consumers of a queue may have delivered the same messages. */
const OVERLAP = 2000

/** A consumer of a queue. */
export interface QueueSource {
  readonly consumer: Consumer
  /** True for a message that another consumer of the queue delivers. */
  skips?(message: JsMsg): boolean
  /** True once this consumer has nothing more to deliver. */
  isDrained?(): Promise<boolean>
}

/**
 * A note about a feed that some workers of a queue read and other workers do not. Times are in
 * milliseconds by the log's clock.
 */
interface Note {
  /** When a worker last said that it does not read the feed. */
  readonly disputedAt: number
  /** When a worker last said that it reads the feed. */
  readonly readAt: number
}

/** What a worker knows of its queue, for the case that the consumer has to be created again. */
interface Position {
  /** When the stream was created. A stream that is created again has other numbers. */
  readonly stream: string
  /** When the consumer was created. */
  readonly consumer: string
  /** Up to this number, every message was acknowledged. */
  readonly floor: number
  /** How many messages were not acknowledged. */
  readonly left: number
}

function positionOf(created: string, info: ConsumerInfo): Position {
  const { ack_floor, num_pending, num_ack_pending, config } = info
  return {
    stream: created,
    consumer: info.created,
    // A consumer that has acknowledged nothing has the floor 0.
    floor: Math.max(ack_floor.stream_seq, (config.opt_start_seq ?? 1) - 1),
    left: num_pending + num_ack_pending,
  }
}

/**
 * The consumer that all workers of a queue share. It has the queue's name. Each report goes to one
 * of the workers. The consumer reads every feed that at least one worker reads. The consumer of a
 * new queue begins with the first message that is stored from then on. If the consumer was lost,
 * the next one begins after the last message that was surely acknowledged. If the stream was lost
 * too, it begins with the first message of the next stream.
 */
export class Queue {
  readonly log: ReportLog
  readonly worker: QueueWorker
  #opening: Promise<readonly QueueSource[]> | undefined
  #hasBeenOpen = false
  #timer: ReturnType<typeof setInterval> | undefined
  /** Undefined until the queue was open. */
  #position: Position | undefined
  readonly #maySay = createErrorLimit(NOT_AGAIN_FOR)

  constructor(log: ReportLog, worker: QueueWorker) {
    this.log = log
    this.worker = worker
    worker.scope.defer(() => clearInterval(this.#timer))
  }

  /** Opens the queue for a connection of the worker. The connection will deliver these feeds. */
  open(feedIDs: readonly string[]): Promise<readonly QueueSource[]> {
    // Feeds that are about to be subscribed are not yet among the stream's feeds.
    const added = feedIDs.filter(feedID => !this.worker.scope.feedIDs.includes(feedID))
    if (added.length > 0) return this.#open(added)
    // Connections that open at the same time share one call.
    this.#opening ??= this.#open([]).finally(() => {
      this.#opening = undefined
    })
    return this.#opening
  }

  async #open(added: readonly string[]): Promise<readonly QueueSource[]> {
    const { scope, settings } = this.worker
    const { queue, redeliverAfter } = settings
    const { stream } = this.log
    const info = await this.log.info()
    await prepareDeadLetters(this.log, info.config)
    return this.log.ask(async ({ client, manager }) => {
      const subjects = this.#subjects(added)
      if (await this.#create(manager, subjects, this.#startIn(info)))
        await this.#join(manager, subjects)
      this.#hasBeenOpen = true
      this.#timer ??= setInterval(() => void this.#agreeAgain(manager), 500 * redeliverAfter)
      this.#timer.unref?.()
      const own = await manager.consumers.info(stream, queue)
      this.#note(info, own)
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

  /** The number of the message that a consumer begins with if it has to be created. */
  #startIn({ created, state }: StreamInfo): number {
    const before = this.#position
    if (before === undefined) return state.last_seq + 1
    return before.stream === created ? before.floor + 1 : Math.max(1, state.first_seq)
  }

  /** Notes the consumer that was opened. Says what was lost with the one before. */
  #note({ created, state }: StreamInfo, own: ConsumerInfo): void {
    const { worker } = this
    const { queue } = worker.settings
    const before = this.#position
    this.#position = positionOf(created, own)
    const isNew = Date.parse(own.created) >= Date.parse(own.ts ?? '') - NEW_FOR
    if (before === undefined) {
      const skipped = (own.config.opt_start_seq ?? 1) - Math.max(1, state.first_seq)
      if (isNew && own.delivered.consumer_seq === 0 && skipped > 0)
        worker.scope.log.warn?.(
          `queue ${queue} is new: it begins with the next report, and leaves out the ${skipped} that stream ${this.log.stream} has`,
        )
      return
    }
    if (before.consumer === own.created) return
    // An answer for a message of the former consumer could acknowledge another message of this one.
    worker.hand.forget()
    worker.say(
      before.stream === created
        ? `queue ${queue} was created again, and begins after report ${this.#position.floor}: reports that were handled since may be given out again`
        : `stream ${this.log.stream} was created again: about ${before.left} reports of the former stream were not handled by queue ${queue}, which begins with the first report of the new one`,
    )
  }

  /** The subjects of the worker's feeds, and the subject of republished reports. */
  #subjects(added: readonly string[] = []): readonly string[] {
    const { prefix } = this.log
    const { scope, settings } = this.worker
    const own = [...scope.feedIDs, ...added].map(feedID => subjectOf(prefix, feedID))
    return [...own, againSubject(prefix, settings.queue, '*')].sort()
  }

  /**
   * Creates the consumer of the queue. Returns true if the consumer already exists with other
   * settings.
   */
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
        // The workers count deliveries themselves, because the server would drop messages that it
        // has delivered too often.
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

  /** Makes the queue read this worker's feeds. */
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
      if (this.#maySay('look'))
        scope.log.warn?.(`queue ${settings.queue} could not be looked at: ${String(thrown)}`)
    }
  }

  /**
   * Compares the queue's feeds with the worker's feeds, and adds missing feeds to the queue. If
   * only other workers read a feed, this worker writes a note about the feed, and the workers that
   * read it answer. A feed without an answer leaves the queue. Returns true if feeds were added.
   */
  async #agree(
    manager: JetStreamManager,
    ownSubjects: readonly string[],
    isStart: boolean,
  ): Promise<boolean> {
    const { log, worker } = this
    const { queue, redeliverAfter } = worker.settings
    const info = await manager.consumers.info(log.stream, queue)
    const position = this.#position
    if (position?.consumer === info.created) this.#position = positionOf(position.stream, info)
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
 * The seconds after which another worker gets a message. It is the longest time of all workers,
 * because a worker with a long time reports progress less often. If no other worker is active, the
 * worker sets its own time.
 */
function ackWaitOf(info: ConsumerInfo, redeliverAfter: number): number {
  const isAlone = info.num_waiting === 0 && info.num_ack_pending === 0
  return isAlone ? redeliverAfter : Math.max(redeliverAfter, secondsOf(info))
}

/** Emits one error if the queue has feeds that this worker does not read. */
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

/** The metadata of a consumer, with its notes replaced. */
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
 * Finds the queue's consumers from former versions, whose names contain a hash of their feeds. The
 * oldest consumer is the first.
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
 * Drains an old consumer: it delivers the messages that are left. It skips messages that a later
 * consumer of the queue has delivered or will deliver. In the end, the consumer gets a subject that
 * no message has, so that the server removes it in time.
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
    // An old consumer began with the messages published after its creation.
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
        // A subject that no message has.
        filter_subjects: [`${log.prefix}.${old.name}-drained.none`],
      })
      return true
    },
  }
}
