// Lets a world happen in virtual time.
import { startVirtualTime, type VirtualTime } from '../../../testing/virtual-time.js'
import { createService, type PageRequest, type Service } from './service.js'
import { type Session, startSession } from './session.js'
import { SETTLED, type World, type WorldEvent } from './world.js'

/** All that was seen in a world. */
export interface Outcome {
  readonly world: World
  /** One after the other. */
  readonly sessions: readonly Session[]
  readonly requests: readonly PageRequest[]
  /** Milliseconds that it lasted. */
  readonly lasted: number
  /** When all had settled; after that the last stream has ended. */
  readonly settledAt: number
  /** Timers that were left at the end. */
  readonly timers: number
  /** What happened, in words, where that was asked for. */
  readonly story: readonly string[]
}

/** Milliseconds until a connection is open, and until one that was reset is open anew. */
const CONNECTING = 20
const RESETTING = 200

/** Runs a world; `isTraced` has it write down all that happens. */
export async function runWorld(world: World, isTraced = false): Promise<Outcome> {
  const time = startVirtualTime()
  try {
    return await runIn(time, world, isTraced)
  } finally {
    time.end()
  }
}

async function runIn(time: VirtualTime, world: World, isTraced: boolean): Promise<Outcome> {
  const story: string[] = []
  const note = isTraced
    ? (text: string) => void story.push(`${(time.now / 1000).toFixed(3).padStart(9)}  ${text}`)
    : undefined
  const service: Service = createService(world, time, request => note?.(describeRequest(request)))
  const sessions: Session[] = []
  const origins = Array.from({ length: world.origins }, (_, origin) => origin)
  const isUp = origins.map(() => true)
  const isMute = origins.map(() => false)
  const staysMute = origins.map(() => false)
  let session: Session | undefined

  function start(): void {
    const before = sessions.at(-1)
    const cursors = world.feeds.map((_, feed) => before?.cursor(feed))
    note?.(`a stream starts at ${cursors.join(', ')}`)
    const started: Session = startSession({ world, time, service, cursors, reset, note })
    session = started
    sessions.push(started)
    for (const origin of origins)
      time.outside(CONNECTING * (origin + 1), () => {
        if (session === started && isUp[origin]) session.connect(origin)
      })
  }

  function reset(): void {
    const current = session
    for (const origin of origins) {
      current?.disconnect(origin)
      isMute[origin] = staysMute[origin] === true
      time.outside(RESETTING, () => {
        if (session === current && isUp[origin]) session?.connect(origin)
      })
    }
  }

  const acts: {
    readonly [Type in WorldEvent['type']]: (event: WorldEvent & { readonly type: Type }) => void
  } = {
    report({ observation, origin }) {
      if (isUp[origin] && !isMute[origin]) session?.receive(observation, origin)
    },
    down({ origin }) {
      isUp[origin] = false
      isMute[origin] = false
      staysMute[origin] = false
      session?.disconnect(origin)
    },
    up({ origin }) {
      isUp[origin] = true
      session?.connect(origin)
    },
    mute({ origin, isForGood }) {
      note?.('the connection is mute')
      isMute[origin] = true
      staysMute[origin] = isForGood === true
    },
    'rest-away': () => {
      note?.('REST is away')
      service.isAway = true
    },
    'rest-back': () => {
      note?.('REST is back')
      service.isAway = false
    },
    restart({ by, after }) {
      session?.end(by)
      session = undefined
      if (after === 0) start()
      else time.outside(after, start)
    },
  }

  start()
  let hasSlept = world.clocks.sleep === 0
  for (const event of world.events) {
    // What the machine would have taken in while it slept is late.
    if (!hasSlept && event.at >= world.clocks.at) {
      hasSlept = true
      note?.(`the machine sleeps ${world.clocks.sleep} ms`)
      await time.sleep(world.clocks.sleep)
    }
    if (event.at > time.now) await time.pass(event.at - time.now)
    acts[event.type](event as never)
  }
  await time.pass(SETTLED)
  const settledAt = time.now
  // A stream may start after the last event.
  session?.end(world.ends)
  await time.pass(0)
  const { timers } = time
  const { requests } = service
  return { world, sessions, requests, lasted: time.now, settledAt, timers, story }
}

function describeRequest({ feed, from, startedAt, shownTo, reports }: PageRequest): string {
  const found = shownTo === undefined ? 'failed' : `${reports} reports`
  return `page of feed ${feed} from ${from}, asked at ${startedAt / 1000}: ${found}`
}
