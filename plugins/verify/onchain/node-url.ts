import { abortable, onAbort } from '../../../core/async.js'
import { TextDecoder } from '../../../platform/globals.js'
import type { RequestingClient } from './node.js'

/** A client of a node that is known by its URL alone, as in EIP-1193. */
export interface NodeClient extends RequestingClient {
  request(args: { readonly method: string; readonly params: readonly unknown[] }): Promise<unknown>
}

interface NodeAnswer {
  readonly result?: unknown
  readonly error?: { readonly message?: unknown; readonly data?: unknown }
}

/** The most characters of an answer: pages of event logs are long. */
const MAX_ANSWER = 2 ** 26

/** Makes a client of a node. The URL may hold a key, so no error contains the URL. */
export function connectNode(url: string, timeout: number): NodeClient {
  return {
    async request({ method, params }) {
      const signal = AbortSignal.timeout(timeout)
      const asked = fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
        signal,
      })
      const response = await abortable(asked, signal)
      const answer = parseAnswer(await abortable(readText(response, signal), signal))
      if (answer?.error !== undefined)
        throw Object.assign(new Error(String(answer.error.message)), { data: answer.error.data })
      if (!response.ok || answer === undefined) throw new Error(`HTTP status ${response.status}`)
      return answer.result
    },
  }
}

/**
 * Reads an answer. Cancels it itself when the signal aborts, because `fetch` may have lost the
 * signal.
 */
async function readText({ body }: Response, signal: AbortSignal): Promise<string> {
  const reader = body?.getReader()
  if (reader === undefined) return ''
  const cancel = (): void => void reader.cancel(signal.reason).catch(() => undefined)
  const forget = onAbort(signal, cancel)
  const decoder = new TextDecoder()
  let text = ''
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return text
      text += decoder.decode(value, { stream: true })
      if (text.length > MAX_ANSWER) throw new Error(`the answer is longer than ${MAX_ANSWER} bytes`)
    }
  } catch (thrown) {
    cancel()
    throw thrown
  } finally {
    forget()
  }
}

function parseAnswer(text: string): NodeAnswer | undefined {
  try {
    return (JSON.parse(text) ?? undefined) as NodeAnswer | undefined
  } catch {
    return undefined
  }
}
