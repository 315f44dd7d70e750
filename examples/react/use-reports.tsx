// Prices of a gateway in React: one stream for all components, whichever feeds they show. The store
// is outside of React, so StrictMode and unmounting open and close nothing that is still wanted.
import {
  createContext,
  type ReactNode,
  useContext,
  useEffect,
  useMemo,
  useState,
  useSyncExternalStore,
} from 'react'
import type { Client, Report, Stream } from 'sluice'

/** What is known of a feed. It is a new object with each change, and the same until then. */
export interface FeedState<Data> {
  /** The newest report; it stays while the feed is stale or the gateway is away. */
  readonly report: Report<Data> | undefined
  readonly status: 'connecting' | 'live' | 'stale' | 'disconnected' | 'failed'
  /** Why the gateway is away, or has refused the stream. It is tried again. */
  readonly error: Error | undefined
}

export interface StoreOptions {
  /** Milliseconds without a report after which a feed is stale. @default 10000 */
  readonly staleAfter?: number
  /** Milliseconds for which a feed without a component is kept. @default 500 */
  readonly linger?: number
  /** Milliseconds until a stream that the gateway has refused is tried again. @default 5000 */
  readonly retryAfter?: number
}

const CONNECTING = { report: undefined, status: 'connecting', error: undefined } as const

/** The feeds that components show, and the stream that brings them. */
export class ReportStore<Data> {
  readonly #client: Client<Data>
  readonly #options: Required<StoreOptions>
  readonly #states = new Map<string, FeedState<Data>>()
  readonly #listeners = new Map<string, Set<() => void>>()
  /** When the last component of a feed has left it. */
  readonly #leftAt = new Map<string, number>()
  #stream: Stream<Data> | undefined
  #isBusy = false
  #timer: ReturnType<typeof setTimeout> | undefined
  #due = 0

  constructor(client: Client<Data>, options: StoreOptions = {}) {
    this.#client = client
    this.#options = { staleAfter: 10_000, linger: 500, retryAfter: 5000, ...options }
  }

  /** The state of a feed: the same object until it changes. */
  get(feedID: string): FeedState<Data> {
    return this.#states.get(feedID) ?? CONNECTING
  }

  /** Calls a listener after each change of a feed. Returns a function that ends it. */
  subscribe(feedID: string, listener: () => void): () => void {
    const listeners = this.#listeners.get(feedID) ?? new Set()
    this.#listeners.set(feedID, listeners)
    listeners.add(listener)
    this.#leftAt.delete(feedID)
    this.#plan(0)
    return () => {
      listeners.delete(listener)
      if (listeners.size > 0) return
      // A component that is mounted again at once, as in StrictMode, finds its feed still there.
      this.#leftAt.set(feedID, performance.now())
      this.#plan(this.#options.linger)
    }
  }

  /** The feeds that a component shows, or showed a moment ago. */
  #wanted(): readonly string[] {
    const now = performance.now()
    for (const [feedID, at] of this.#leftAt) {
      if (now - at < this.#options.linger) continue
      this.#leftAt.delete(feedID)
      this.#listeners.delete(feedID)
    }
    return [...this.#listeners.keys()]
  }

  #plan(delay: number): void {
    const due = performance.now() + delay
    if (this.#timer !== undefined && this.#due <= due) return
    clearTimeout(this.#timer)
    this.#due = due
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#adjust()
    }, delay)
  }

  /** Makes the stream's feeds those that are wanted. Changes follow one another. */
  async #adjust(): Promise<void> {
    if (this.#isBusy) return this.#plan(50)
    this.#isBusy = true
    try {
      const wanted = this.#wanted()
      if (wanted.length === 0) await this.#close()
      else if (this.#stream === undefined) await this.#open(wanted)
      else {
        const { feedIDs } = this.#stream
        const added = wanted.filter(each => !feedIDs.includes(each))
        const gone = feedIDs.filter(each => !wanted.includes(each))
        if (added.length > 0) await this.#stream.subscribe(added)
        for (const feedID of gone) this.#states.delete(feedID)
        if (gone.length > 0) await this.#stream.unsubscribe(gone)
      }
    } catch (error) {
      for (const feedID of this.#wanted())
        if (this.get(feedID).report === undefined)
          this.#change(feedID, { status: 'failed', error: error as Error })
      this.#plan(this.#options.retryAfter)
    } finally {
      this.#isBusy = false
      if (this.#leftAt.size > 0) this.#plan(this.#options.linger)
    }
  }

  async #open(feedIDs: readonly string[]): Promise<void> {
    const stream = this.#client.createStream(feedIDs, {
      maxReconnectAttempts: Number.POSITIVE_INFINITY,
      staleAfter: this.#options.staleAfter,
    })
    this.#stream = stream
    const changeAll = (change: Partial<FeedState<Data>>): void => {
      for (const feedID of stream.feedIDs) this.#change(feedID, change)
    }
    stream.on('report', report => {
      if (report.isNewest) this.#change(report.feedID, { report, status: 'live', error: undefined })
    })
    stream.on('status', status => {
      if (status.type !== 'stale') return
      // The next report makes it live again.
      for (const feedID of status.feedIDs)
        if (this.get(feedID).status !== 'disconnected') this.#change(feedID, { status: 'stale' })
    })
    stream.on('disconnected', () => changeAll({ status: 'disconnected' }))
    stream.on('reconnecting', ({ error }) => changeAll({ status: 'disconnected', error }))
    stream.on('connected', () => changeAll({ status: 'connecting', error: undefined }))
    // `closed` tells of the error that ends the stream; the stream survives all others.
    stream.on('error', error => console.warn(error.message))
    stream.closed.catch((error: Error) => {
      if (this.#stream !== stream) return
      this.#stream = undefined
      for (const feedID of this.#wanted()) this.#change(feedID, { status: 'failed', error })
      this.#plan(this.#options.retryAfter)
    })
    await stream.connect().catch(() => undefined)
  }

  async #close(): Promise<void> {
    const stream = this.#stream
    this.#stream = undefined
    this.#states.clear()
    await stream?.close()
  }

  #change(feedID: string, change: Partial<FeedState<Data>>): void {
    this.#states.set(feedID, { ...this.get(feedID), ...change })
    for (const listener of this.#listeners.get(feedID) ?? []) listener()
  }
}

// A context has no type parameter, so the store is cast where it is read.
const StoreContext = createContext<ReportStore<unknown> | undefined>(undefined)

/** Gives the components below it a store. Make the store once, outside of components. */
export function ReportsProvider<Data>(props: {
  readonly store: ReportStore<Data>
  readonly children: ReactNode
}): ReactNode {
  return (
    <StoreContext.Provider value={props.store as unknown as ReportStore<unknown>}>
      {props.children}
    </StoreContext.Provider>
  )
}

/** The states of several feeds, in their order. */
export function useReports<Data>(feedIDs: readonly string[]): readonly FeedState<Data>[] {
  const store = useContext(StoreContext) as unknown as ReportStore<Data> | undefined
  if (store === undefined) throw new Error('useReports needs a ReportsProvider above it')
  const key = feedIDs.join(',').toLowerCase()
  const selection = useMemo(() => select(store, key === '' ? [] : key.split(',')), [store, key])
  return useSyncExternalStore(selection.subscribe, selection.get, () => selection.atFirst)
}

/** The state of a feed. */
export function useReport<Data>(feedID: string): FeedState<Data> {
  return useReports<Data>([feedID])[0] as FeedState<Data>
}

/** Some feeds of a store, as an array that stays the same until one of them changes. */
function select<Data>(store: ReportStore<Data>, feedIDs: readonly string[]) {
  let last: readonly FeedState<Data>[] = []
  return {
    atFirst: feedIDs.map((): FeedState<Data> => CONNECTING),
    subscribe(listener: () => void): () => void {
      const ends = feedIDs.map(feedID => store.subscribe(feedID, listener))
      return () => {
        for (const end of ends) end()
      }
    },
    get(): readonly FeedState<Data>[] {
      const next = feedIDs.map(feedID => store.get(feedID))
      const isSame = next.length === last.length && next.every((each, at) => each === last[at])
      if (!isSame) last = next
      return last
    },
  }
}

/** The seconds since a report was observed, once a second. */
export function useAge(report: Report | undefined): number | undefined {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  if (report === undefined) return undefined
  const { observationsTimestamp: time, feedID } = report
  return Math.max(0, Math.round(now / 1000 - (feedID.startsWith('0x1') ? time / 1000 : time)))
}
