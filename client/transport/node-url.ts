import { TextDecoder } from '../../platform/globals.js'
import { createHttp } from './http.js'

/** A client of a node that is known by its URL alone, as in EIP-1193. */
export interface NodeClient {
  request(args: { readonly method: string; readonly params: readonly unknown[] }): Promise<unknown>
}

interface NodeAnswer {
  readonly result?: unknown
  readonly error?: { readonly message?: unknown; readonly data?: unknown }
}

/** The most bytes of an answer: pages of event logs are long. */
const MAX_ANSWER_BYTES = 2 ** 26

/** Makes a client of a node. The URL may hold a key, so no error contains the URL. */
export function connectNode(url: string, timeout: number): NodeClient {
  const http = createHttp((input, init) => fetch(input, { ...init, redirect: 'follow' }))
  return {
    async request({ method, params }) {
      const { status, body } = await http(
        {
          method: 'POST',
          url,
          headers: new Headers({ 'content-type': 'application/json' }),
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
          signal: AbortSignal.timeout(timeout),
        },
        MAX_ANSWER_BYTES,
      )
      const answer = parseAnswer(body)
      if (answer?.error !== undefined)
        throw Object.assign(new Error(String(answer.error.message)), { data: answer.error.data })
      if (status < 200 || status > 299 || answer === undefined)
        throw new Error(`HTTP status ${status}`)
      return answer.result
    },
  }
}

function parseAnswer(body: Uint8Array): NodeAnswer | undefined {
  try {
    return (JSON.parse(new TextDecoder().decode(body)) ?? undefined) as NodeAnswer | undefined
  } catch {
    return undefined
  }
}
