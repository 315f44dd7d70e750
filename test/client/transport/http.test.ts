import { describe, expect, jest, test } from '@jest/globals'
import {
  createHttp,
  type Fetch,
  type HttpAnswer,
  MAX_REFUSAL_BYTES,
  REFUSAL_TIMEOUT,
} from '../../../client/transport/http.js'
import { failureOf } from '../../support/waiting.js'

/** A request through a fetch that loses its signal, as a garbage collection makes it. */
function ask(
  answer: () => Response | Promise<Response>,
  maxBytes = 100,
): { readonly answered: Promise<HttpAnswer>; abort(reason: Error): void } {
  const controller = new AbortController()
  const fetch: Fetch = async () => answer()
  const { signal } = controller
  const request = { method: 'GET', url: 'http://localhost', headers: new Headers(), signal }
  const answered = createHttp(fetch)(request, maxBytes)
  answered.catch(() => undefined)
  return { answered, abort: reason => controller.abort(reason) }
}

/** A body whose bytes the test sends, and the reasons that it is cancelled with. */
function openBody(cancel: () => unknown = () => undefined): {
  readonly body: ReadableStream<Uint8Array>
  send(text: string): void
  cancelled: unknown[]
} {
  const cancelled: unknown[] = []
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const body = new ReadableStream<Uint8Array>({
    start(given) {
      controller = given
    },
    cancel(reason) {
      cancelled.push(reason)
      return cancel() as Promise<void>
    },
  })
  return { body, cancelled, send: text => controller?.enqueue(new TextEncoder().encode(text)) }
}

/** Lets everything run that waits for no event. */
const turn = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
const late = new Error('too late')

test('a body in too many small pieces is refused, and cancelled', async () => {
  const { body, send, cancelled } = openBody()
  const { answered } = ask(() => new Response(body), 1_000_000)
  for (let piece = 0; piece < 16_385; piece++) send('.')
  const failure = await failureOf(answered)
  expect(failure).toMatchObject({
    code: 'API_RESPONSE',
    message: expect.stringContaining('comes in more than 16384 small pieces'),
  })
  expect(cancelled).toEqual([failure])
})

describe('the signal ends a request whose fetch lost it', () => {
  test('before the head; a head that comes later has its body cancelled', async () => {
    let answer: (response: Response) => void = () => undefined
    const asked = ask(
      () =>
        new Promise(resolve => {
          answer = resolve
        }),
    )
    asked.abort(late)
    expect(await failureOf(asked.answered)).toBe(late)
    const { body, cancelled } = openBody()
    answer(new Response(body))
    await turn()
    expect(cancelled).toEqual([late])
  })

  test.each([200, 500])('after the head of a %s', async status => {
    const { body, cancelled } = openBody()
    const asked = ask(() => new Response(body, { status }))
    await turn()
    asked.abort(late)
    expect(await failureOf(asked.answered)).toBe(late)
    expect(cancelled).toEqual([late])
  })

  test('in a body that drips', async () => {
    const { body, send, cancelled } = openBody()
    const asked = ask(() => new Response(body))
    for (const byte of 'drip') {
      send(byte)
      await turn()
    }
    asked.abort(late)
    expect(await failureOf(asked.answered)).toBe(late)
    expect(cancelled).toEqual([late])
    expect(() => send('p')).toThrow()
  })

  test.each<[string, () => unknown]>([
    ['never settles', () => new Promise(() => undefined)],
    ['rejects', () => Promise.reject(new Error('of cancel'))],
    [
      'throws',
      () => {
        throw new Error('of cancel')
      },
    ],
  ])('whose cancellation %s, also if it is cancelled twice', async (_what, cancel) => {
    const { body, cancelled } = openBody(cancel)
    const asked = ask(() => new Response(body))
    await turn()
    asked.abort(late)
    asked.abort(new Error('again'))
    expect(await failureOf(asked.answered)).toBe(late)
    await turn()
    expect(cancelled).toEqual([late])

    const long = openBody(cancel)
    const cut = ask(() => new Response(long.body), 3)
    long.send('long')
    expect(await failureOf(cut.answered)).toMatchObject({ code: 'API_RESPONSE' })
    cut.abort(late)
    await turn()
    expect(long.cancelled).toHaveLength(1)
  })

  test('of a reader of another library, whose read stays open', async () => {
    const reasons: unknown[] = []
    const reader = { read: () => new Promise(() => undefined), cancel: reasons.push.bind(reasons) }
    const response = { status: 200, headers: new Headers(), body: { getReader: () => reader } }
    const asked = ask(() => response as unknown as Response)
    await turn()
    asked.abort(late)
    expect(await failureOf(asked.answered)).toBe(late)
    expect(reasons).toContain(late)
  })
})

test('the body of an error is given up, and cancelled, if it is late or long', async () => {
  jest.useFakeTimers({ doNotFake: ['setImmediate'] })
  try {
    const slow = openBody()
    const asked = ask(() => new Response(slow.body, { status: 500 }))
    slow.send('x')
    await turn()
    jest.advanceTimersByTime(REFUSAL_TIMEOUT)
    expect(await asked.answered).toMatchObject({ status: 500, body: new Uint8Array() })
    expect(slow.cancelled).toHaveLength(1)
  } finally {
    jest.useRealTimers()
  }
  const long = openBody()
  const asked = ask(() => new Response(long.body, { status: 500 }))
  long.send('x'.repeat(MAX_REFUSAL_BYTES + 1))
  expect(await asked.answered).toMatchObject({ status: 500, body: new Uint8Array() })
  expect(long.cancelled).toHaveLength(1)
})
