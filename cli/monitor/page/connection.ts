import type { Message } from '../messages.js'

/** Milliseconds without a message after which the connection is lost: the server sends one every two seconds at least. */
const PATIENCE = 7000
const RETRY = 1000
const RESTART = 'restart'

/** How the page stands with its server. */
export type LinkState = 'connecting' | 'open' | 'lost' | 'unauthorised'

interface Link {
  onMessage(message: Message): void
  onState(state: LinkState): void
}

/** What the page has of its server. */
export interface Following {
  /** Begins anew, with all there is. */
  restart(): void
}

/** Moves the token out of the address bar, where it could be seen and would stay in the history. */
export function takeToken(): string | undefined {
  const given = new URLSearchParams(location.hash.slice(1)).get('token')
  if (given !== null) {
    sessionStorage.setItem('token', given)
    history.replaceState(undefined, '', location.pathname)
  }
  return sessionStorage.getItem('token') ?? undefined
}

/** Reads the server's events for as long as the page is open. `EventSource` can't send a token in a header. */
export function follow(token: string | undefined, { onMessage, onState }: Link): Following {
  let current = new AbortController()

  async function repeat(): Promise<void> {
    for (;;) {
      current = new AbortController()
      const isRestart = await readEvents(token, current, message => {
        onState('open')
        try {
          onMessage(message)
        } catch (error) {
          // A fault of the page, which has nothing to do with the connection.
          reportError(error)
        }
      }).then(
        status => {
          if (status === 401) throw new Error('the token is missing or wrong')
          return false
        },
        () => current.signal.reason === RESTART,
      )
      if (isRestart) continue
      onState('lost')
      await new Promise(resolve => setTimeout(resolve, RETRY))
    }
  }

  repeat().catch(() => onState('unauthorised'))
  return { restart: () => current.abort(RESTART) }
}

/** Reads one answer to its end. Returns its status. */
async function readEvents(
  token: string | undefined,
  quiet: AbortController,
  onMessage: (message: Message) => void,
): Promise<number> {
  let timer = setTimeout(() => quiet.abort(), PATIENCE)
  try {
    const response = await fetch('/events', {
      headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
      signal: quiet.signal,
      cache: 'no-store',
    })
    if (!response.ok || response.body === null) return response.status
    const texts = response.body.pipeThrough(new TextDecoderStream()).getReader()
    let rest = ''
    for (;;) {
      const { done, value } = await texts.read()
      if (done) return response.status
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
