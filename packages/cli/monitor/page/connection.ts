import type { Message } from '../messages.js'
import { recall, remember } from './storage.js'

/**
 * After this many milliseconds without a message, the connection counts as lost. The server sends a
 * message at least every two seconds.
 */
const PATIENCE = 7000
const RETRY = 1000
const RESTART = 'restart'

/** The state of the page's connection to its server. */
export type LinkState = 'connecting' | 'open' | 'lost' | 'unauthorised'

interface Link {
  onMessage(message: Message): void
  /** `why` is the reason that the server gives, if it gives one. */
  onState(state: LinkState, why?: string): void
}

/** The connection of the page to its server. */
export interface Following {
  /** Connects again, so that the server sends everything again. */
  restart(): void
}

/**
 * Moves the token from the address bar to the storage of the session, and returns it. In the
 * address bar, others could see the token and the browser's history would keep it.
 */
export function takeToken(): string | undefined {
  const given = new URLSearchParams(location.hash.slice(1)).get('token')
  if (given !== null) {
    remember('sessionStorage', 'token', given)
    history.replaceState(undefined, '', location.pathname)
  }
  return given ?? recall('sessionStorage', 'token')
}

/**
 * Reads the server's events for as long as the page is open. It uses `fetch`, because `EventSource`
 * can't send a token in a header.
 */
export function follow(token: string | undefined, { onMessage, onState }: Link): Following {
  let current = new AbortController()

  async function repeat(): Promise<void> {
    for (;;) {
      current = new AbortController()
      const { status, why } = await readEvents(token, current, message => {
        onState('open')
        try {
          onMessage(message)
        } catch (error) {
          // The page has failed, not the connection, so reading continues.
          reportError(error)
        }
      }).catch((): Ended => ({}))
      if (current.signal.reason === RESTART) continue
      if (status === 401) return onState('unauthorised')
      onState('lost', why)
      await new Promise(resolve => setTimeout(resolve, RETRY))
    }
  }

  void repeat()
  return { restart: () => current.abort(RESTART) }
}

/** How an answer ended. The status is set if the server refused the request. */
interface Ended {
  readonly status?: number
  readonly why?: string
}

/** Reads one answer to its end. */
async function readEvents(
  token: string | undefined,
  quiet: AbortController,
  onMessage: (message: Message) => void,
): Promise<Ended> {
  let timer = setTimeout(() => quiet.abort(), PATIENCE)
  try {
    const response = await fetch('/events', {
      headers: headersOf(token),
      signal: quiet.signal,
      cache: 'no-store',
    })
    const { ok, status, body } = response
    if (!ok || body === null) return { status, why: await response.text() }
    const texts = body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { done, value } = await texts.read()
      if (done) return {}
      clearTimeout(timer)
      timer = setTimeout(() => quiet.abort(), PATIENCE)
      const events = (rest + value).split('\n\n')
      rest = events.pop() ?? ''
      for (const event of events) onMessage(JSON.parse(event.slice('data: '.length)) as Message)
    }
  } finally {
    clearTimeout(timer)
  }
}

/** Asks the server for details. Undefined if there are none, or if the server does not answer. */
export async function ask<Answer>(
  path: string,
  token: string | undefined,
): Promise<Answer | undefined> {
  try {
    const response = await fetch(path, {
      headers: headersOf(token),
      signal: AbortSignal.timeout(PATIENCE),
      cache: 'no-store',
    })
    return response.ok ? ((await response.json()) as Answer) : undefined
  } catch {
    return undefined
  }
}

function headersOf(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { Authorization: `Bearer ${token}` }
}
