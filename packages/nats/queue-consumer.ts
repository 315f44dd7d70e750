import type { ConsumerInfo, JetStreamManager, JsMsg } from '@nats-io/jetstream'
import { sleep } from 'sluice/core'
import { prepareDeadLetters } from './dead-letters.js'
import { accessLog, isAPIError, type ReportLog, readInfo, streamError } from './log.js'
import type { QueueSource } from './queue-reading.js'
import type { QueueWorker } from './queue-worker.js'
import { againSubject, feedPart, subjectOf } from './subjects.js'

const SECOND = 1_000_000_000
/** Reports that the workers of a queue may have and not be done with. */
const MAX_PENDING = 10_000
/** After a week without a worker the server forgets the queue. */
const FORGOTTEN_AFTER = 7 * 86_400 * SECOND
/** In so many times `redeliverAfter`, a feed that no worker reads leaves the queue. */
const LEAVES_AFTER = 10
/** Feeds about which workers may disagree at once: notes of a consumer have 128 KiB. */
const MAX_NOTES = 500
/** What the notes of a consumer about feeds begin with. */
const NOTE = 'sluice.feed.'
/** Milliseconds until the feeds are looked at again, after this worker has added some: another may have written at the same time. */
const SECOND_LOOK = 100
const MAX_LOOKS = 10
/** Milliseconds for which two old consumers of a queue may have brought the same. */
const OVERLAP = 2000
/** The server has a consumer of the name, with other settings. */
const OTHER_SETTINGS: readonly number[] = [10_013, 10_148]

/** Opens a queue for a connection of a worker that is to carry these feeds. */
export type OpenQueue = (feedIDs: readonly string[]) => Promise<readonly QueueSource[]>

/**
 * The consumer that all workers of a queue share, by the queue's name: each report goes to one of them. It reads each feed that
 * one of its workers reads, and begins where the queue was made.
 */
export function createQueue(log: ReportLog, worker: QueueWorker): OpenQueue {
  const { settings, scope } = worker
  const { queue } = settings
  let opening: ReturnType<OpenQueue> | undefined
  let hasBeenOpen = false
  let timer: ReturnType<typeof setInterval> | undefined
  scope.defer(() => clearInterval(timer))

  async function open(added: readonly string[]): Promise<readonly QueueSource[]> {
    const { client, manager } = await accessLog(log.connection)
    const { config, state } = await readInfo(log)
    await prepareDeadLetters(log, config.num_replicas)
    try {
      const start = state.last_seq + 1
      const subjects = subjectsOf(log, worker, added)
      if (await create(manager, log, worker, subjects, start)) await join(manager, subjects)
      hasBeenOpen = true
      timer ??= setInterval(() => void agreeAgain(manager), 500 * settings.redeliverAfter)
      timer.unref?.()
      const own = await manager.consumers.info(log.stream, queue)
      const old = await findOld(manager, log.stream, queue)
      const sources = old.map(each => drain(manager, log, each, [...old, own]))
      for (const { name, num_pending, num_ack_pending } of old)
        scope.log.warn?.(
          `queue ${queue}: ${num_pending + num_ack_pending} reports of its former consumer ${name} are drained`,
        )
      const names = [...sources, { name: queue }]
      return await Promise.all(
        names.map(async ({ name, ...source }) => ({
          ...source,
          consumer: await client.consumers.get(log.stream, name),
        })),
      )
    } catch (thrown) {
      throw streamError(log.stream, thrown)
    }
  }

  /** Has the queue read this worker's feeds. */
  async function join(manager: JetStreamManager, subjects: readonly string[]): Promise<void> {
    for (let looks = 0; looks < MAX_LOOKS; looks++) {
      if (!(await agree(manager, log, worker, subjects, !hasBeenOpen))) return
      await sleep(SECOND_LOOK, scope.signal)
    }
  }

  async function agreeAgain(manager: JetStreamManager): Promise<void> {
    try {
      await agree(manager, log, worker, subjectsOf(log, worker), false)
    } catch (thrown) {
      scope.log.warn?.(`queue ${queue} could not be looked at: ${String(thrown)}`)
    }
  }

  return function openOnce(feedIDs) {
    // Feeds that are about to be subscribed to are not among the stream's yet.
    const added = feedIDs.filter(feedID => !scope.feedIDs.includes(feedID))
    if (added.length > 0) return open(added)
    // Connections that open at the same time need it once.
    opening ??= open([]).finally(() => {
      opening = undefined
    })
    return opening
  }
}

/** The subjects of the worker's feeds, and that of those which are published again. */
function subjectsOf(
  { prefix }: ReportLog,
  { scope, settings }: QueueWorker,
  added: readonly string[] = [],
): readonly string[] {
  const again = againSubject(prefix, settings.queue, '*')
  return [...[...scope.feedIDs, ...added].map(feedID => subjectOf(prefix, feedID)), again].sort()
}

/** Creates the consumer of a queue; true where there is one already, with other settings. */
async function create(
  manager: JetStreamManager,
  log: ReportLog,
  worker: QueueWorker,
  subjects: readonly string[],
  start: number,
): Promise<boolean> {
  const { queue, redeliverAfter } = worker.settings
  try {
    await manager.consumers.add(log.stream, {
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
    if (OTHER_SETTINGS.some(code => isAPIError(thrown, code))) return true
    throw thrown
  }
}

/** What is noted of a feed that some workers of a queue read and others do not, in milliseconds by the clock of the log. */
interface Note {
  /** When a worker said last that it does not read it. */
  readonly disputedAt: number
  /** When a worker said last that it does. */
  readonly readAt: number
}

/**
 * Compares the feeds of the queue with those of a worker, and has it read these, too. A feed that other workers alone read is
 * noted, and its readers answer; without an answer it leaves the queue. True where feeds were added.
 */
async function agree(
  manager: JetStreamManager,
  log: ReportLog,
  worker: QueueWorker,
  ownSubjects: readonly string[],
  isStart: boolean,
): Promise<boolean> {
  const { queue, redeliverAfter } = worker.settings
  const info = await manager.consumers.info(log.stream, queue)
  const now = info.ts === undefined ? Date.now() : Date.parse(info.ts)
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
  worker.setAckWait(ackWait)
  if (isChanged || isOther) {
    const after = await manager.consumers.update(log.stream, queue, {
      filter_subjects: [...subjects],
      metadata: { ...otherMetadata(info), ...writeNotes(notes) },
      ...(isOther ? { ack_wait: ackWait * SECOND } : {}),
    })
    const left = info.num_pending - after.num_pending
    if (gone.length > 0)
      worker.say(
        `queue ${queue} no longer reads ${gone.length} feeds, which no worker has read for ${leaves / 1000} s: ${gone.join(', ')}; about ${Math.max(0, left)} of their reports were not given out`,
      )
  }
  worker.left = new Set([...worker.left, ...worker.disputed].filter(id => !has(subjects, log, id)))
  sayForeign(worker, [...notes.keys()], new Set([...own].map(feedPart)))
  return added.length > 0
}

function secondsOf({ config: { ack_wait = 0 } }: ConsumerInfo): number {
  return ack_wait / SECOND
}

/** The longest of the workers counts, since others say less often that they are alive; alone, a worker decides. */
function ackWaitOf(info: ConsumerInfo, redeliverAfter: number): number {
  const isAlone = info.num_waiting === 0 && info.num_ack_pending === 0
  return isAlone ? redeliverAfter : Math.max(redeliverAfter, secondsOf(info))
}

function has(subjects: ReadonlySet<string>, { prefix }: ReportLog, feedID: string): boolean {
  return subjects.has(subjectOf(prefix, feedID))
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

function writeNotes(notes: ReadonlyMap<string, Note>): Record<string, string> {
  return Object.fromEntries(
    Array.from(notes, ([id, { disputedAt, readAt }]) => [NOTE + id, `${disputedAt},${readAt}`]),
  )
}

function otherMetadata({ config: { metadata = {} } }: ConsumerInfo): Record<string, string> {
  return Object.fromEntries(Object.entries(metadata).filter(([key]) => !key.startsWith(NOTE)))
}

/** The subject of consumers that were drained: nothing has it. */
function drainedSubject({ prefix }: ReportLog, queue: string): string {
  return `${prefix}.${queue}-drained.none`
}

/** Consumers of former versions, which had a hash of their feeds in the name; the first to be made is the first. */
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
 * Takes what an old consumer has left: what a later one of the queue has brought, or will bring, is left to that. In the end it is
 * given a subject that nothing has, so that the server forgets it in time.
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
        filter_subjects: [drainedSubject(log, old.name)],
      })
      return true
    },
  }
}
