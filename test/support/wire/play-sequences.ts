/** Plays sequences of reports to a client, over real sockets. */
import { type Client, createClient, type Stream } from '../../../index.js'
import { feedID, makeNetwork, type Report, type Service, startService } from '../service/service.js'
import { pause, until } from '../waiting.js'
import type {
  Emitted,
  Given,
  Group,
  Move,
  Outcome,
  Published,
  Sequence,
  Variant,
  World,
} from './sequence.js'

/** Milliseconds between two reports. */
const PACE = 15
/** Milliseconds by which the machine may be late with the reports of a group, before they are played again. */
const LATE = 6000
/** Milliseconds in which the variants of a group share their reports, as encoding takes time. */
const SHARED = 2000
/** Milliseconds until the outcome is looked at: the last look is ten seconds after the last report. */
const SETTLE = 12_500
/** Groups that are published at a time. */
const AT_ONCE = 12

const network = makeNetwork()

const feedOf = ({ feed = 'seconds' }: Sequence, index: number): string =>
  feedID(feed === 'blocks' ? 1 : 3, index + 1, { milliseconds: feed === 'milliseconds' })

/** The reports of a group. */
interface Edition {
  readonly madeAt: number
  readonly reports: Map<Sequence, Map<Given, Report>>
}

const editions = new Map<Group, Edition>()

function editionOf(group: Group): Edition {
  const known = editions.get(group)
  const now = Date.now()
  if (known !== undefined && now - known.madeAt < SHARED) return known
  const reports = new Map(group.sequences.map(sequence => [sequence, new Map()]))
  const edition = { madeAt: now, reports }
  editions.set(group, edition)
  return edition
}

/** One sequence while it is played. */
interface Playing {
  readonly sequence: Sequence
  readonly feed: string
  /** The start of the sequence, in the feed's unit. */
  readonly base: number
  readonly reports: Map<Given, Report>
  readonly published: Published[]
  readonly emitted: Emitted[]
  /** The last report of each network, whose clock was right. */
  readonly last: Map<number, number>
}

async function playMoves(
  world: World,
  playing: Playing,
  moves: readonly Move[],
  isConnected: boolean,
): Promise<void> {
  const { pace = PACE } = playing.sequence
  for (const [index, move] of moves.entries()) {
    if (typeof move === 'number') await pause(move)
    else if (typeof move === 'function') await move(world, playing.feed, playing.base)
    else {
      publish(world.service, playing, move, isConnected)
      if (pace > 0) await pause(pace)
      else if (index % 25 === 0) await pause(0)
    }
  }
}

function publish(
  service: Service,
  { feed, base, reports, published, last }: Playing,
  given: Given,
  isConnected: boolean,
): void {
  const { at, way = 'both', network = 0, price, isWrong = false, isOptional = false } = given
  const before = last.get(network)
  const from = given.from ?? (before === undefined ? at : Math.min(before + 1, at))
  if (!isWrong) last.set(network, at)
  const isStored = way === 'both' || way === 'stored'
  const isSent = way === 'both' || way === 'sent'
  published.push({ given, isDue: !isOptional && (isStored || (isSent && isConnected)) })
  const act = {
    both: service.publish,
    stored: service.store,
    sent: service.send,
    lost: service.skip,
  }
  const { storeAfter, sendAfter, to } = given
  const made = act[way](reports.get(given) ?? feed, {
    observed: base + at,
    validFrom: base + from,
    ...(network === 0 ? {} : { digest: `0x0009${String(network).padStart(60, '0')}` }),
    ...(price === undefined ? {} : { fields: { price } }),
    ...(storeAfter === undefined ? {} : { storeAfter }),
    ...(sendAfter === undefined ? {} : { sendAfter }),
    ...(to === undefined ? {} : { to }),
  })
  reports.set(given, made)
}

/** Adds what the stream emits to the feeds that it is about. */
function listen(
  stream: Stream,
  playings: readonly Playing[],
  isClosed: () => boolean,
): { errors: Error[]; afterClose: string[] } {
  const errors: Error[] = []
  const afterClose: string[] = []
  const byFeed = new Map(playings.map(playing => [playing.feed, playing]))
  function add(id: string, make: (base: number) => Emitted): void {
    const playing = byFeed.get(id)
    const emitted = make(playing?.base ?? 0)
    playing?.emitted.push(emitted)
    if (isClosed()) afterClose.push(emitted.type)
  }
  stream.on('report', ({ feedID: id, observationsTimestamp: time, source }) =>
    add(id, base => ({ type: 'report', at: time - base, source })),
  )
  stream.on('gap', ({ feedID: id, from, to, cause }) =>
    add(id, base => ({ type: 'gap', from: from - base, to: to - base, cause })),
  )
  stream.on('gap-filled', ({ gap: { from, to }, report }) =>
    add(report.feedID, base => ({
      type: 'gap-filled',
      at: report.observationsTimestamp - base,
      from: from - base,
      to: to - base,
    })),
  )
  stream.on('conflict', ({ other }) =>
    add(other.feedID, base => ({ type: 'conflict', at: other.observationsTimestamp - base })),
  )
  stream.on('error', error => void errors.push(error))
  return { errors, afterClose }
}

/** Waits until nothing is on its way. */
async function settleIn(stream: Stream): Promise<void> {
  let received = -1
  for (let unchanged = 0; unchanged < 3; unchanged++) {
    const now = stream.getMetrics().totalReceived
    if (now !== received) unchanged = 0
    received = now
    await pause(60)
  }
}

interface Opened extends World {
  readonly client: Client
  readonly playings: readonly Playing[]
  readonly errors: readonly Error[]
  readonly afterClose: readonly string[]
}

async function openWorld(group: Group, variant: Variant): Promise<Opened> {
  const { sequences, origins = ['001'] } = group
  const feeds = sequences.map(feedOf)
  const service = await startService({ feeds, origins, network, signatures: 'dummy' })
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const client = createClient({
    apiKey,
    userSecret,
    endpoint,
    wsEndpoint,
    haMode: origins.length > 1,
    retryDelay: 20,
    // Many feeds share one client here only to save time.
    rateLimit: { requests: 1000 },
    continuity: { ...group.continuity, order: variant.order },
    ...group.config,
  })
  const stream = client.createStream(feeds, { reconnectInterval: 200, ...group.stream })
  stream.closed.catch(() => undefined)
  const edition = editionOf(group)
  const playings = sequences.map((sequence, index): Playing => {
    const { madeAt } = edition
    const base = sequence.feed === 'milliseconds' ? madeAt : Math.floor(madeAt / 1000)
    const reports = edition.reports.get(sequence) ?? new Map()
    const feed = feeds[index] as string
    return { sequence, feed, base, reports, published: [], emitted: [], last: new Map() }
  })
  const life = { isClosed: false }
  async function close(): Promise<void> {
    const closing = stream.close()
    life.isClosed = true
    await closing
  }
  const collected = listen(stream, playings, () => life.isClosed)
  return { variant, service, client, stream, close, playings, ...collected }
}

/** Plays all parts of a group's sequences. Returns false if the machine was late. */
async function playParts(world: Opened, { origins = ['001'] }: Group): Promise<boolean> {
  const { variant, service, stream, playings } = world
  const isOpen = () => stream.getMetrics().activeConnections === origins.length
  const playPart = (part: 'before' | 'meanwhile' | 'after', isConnected = true) =>
    Promise.all(
      playings.map(each => playMoves(world, each, each.sequence[part] ?? [], isConnected)),
    )
  await stream.connect()
  await until(isOpen)
  const start = performance.now()
  await playPart('before')
  if (variant.outage) {
    await settleIn(stream)
    await service.stop()
    await playPart('meanwhile', false)
    await pause(100)
    await service.start()
    await until(isOpen)
    await pause(50)
  } else await playPart('meanwhile')
  await playPart('after')
  const lasted = performance.now() - start
  return lasted < LATE + Math.max(...playings.map(({ sequence }) => durationOf(sequence)))
}

/** Milliseconds that a sequence should take. */
function durationOf({ before, meanwhile = [], after = [], pace = PACE }: Sequence): number {
  return [...before, ...meanwhile, ...after].reduce<number>(
    (sum, move) => sum + (typeof move === 'number' ? move : typeof move === 'object' ? pace : 0),
    0,
  )
}

let publishing = 0

/** Plays the sequences of a group to one client. */
export async function play(
  group: Group,
  variant: Variant,
  attempts = 3,
): Promise<readonly Outcome[]> {
  await until(() => publishing < AT_ONCE)
  publishing++
  const world = await openWorld(group, variant)
  const { client, service, stream, playings, errors, afterClose } = world
  const close = async () => {
    await client.close()
    await service.close()
  }
  let isInTime = false
  try {
    isInTime = await playParts(world, group).finally(() => publishing--)
    if (isInTime || attempts === 1) {
      await pause(group.settle ?? SETTLE)
      const metrics = stream.getMetrics()
      await world.close()
      await pause(100)
      return playings.map(({ feed, base, published, emitted }) => ({
        variant,
        service,
        feed,
        published,
        emitted,
        delivered: emitted.flatMap(each => (each.type === 'report' ? [each.at] : [])),
        errors,
        metrics,
        pages: pagesOf(service, feed, base),
        afterClose,
      }))
    }
  } finally {
    await close()
  }
  return play(group, variant, attempts - 1)
}

function pagesOf(service: Service, feed: string, base: number): string[] {
  const [first] = service.requests
  return service.requestsTo('/api/v1/reports/page').flatMap(({ path, at, status }) => {
    const query = new URL(path, service.endpoint).searchParams
    if (query.get('feedID') !== feed) return []
    const from = Number(query.get('startTimestamp')) - base
    return [`after ${at - (first?.at ?? 0)} ms, from ${from}: ${status}`]
  })
}
