import type { RequestingClient } from './node.js'

/** A client of a node that is known by its URL alone, as in EIP-1193. */
export interface NodeClient extends RequestingClient {
  request(args: { readonly method: string; readonly params: readonly unknown[] }): Promise<unknown>
}

interface NodeAnswer {
  readonly result?: unknown
  readonly error?: { readonly message?: unknown; readonly data?: unknown }
}

/** Makes a client of a node. The URL may hold a key, so no error contains the URL. */
export function connectNode(url: string, timeout: number): NodeClient {
  return {
    async request({ method, params }) {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
        signal: AbortSignal.timeout(timeout),
      })
      const answer = (await response.json().catch(() => undefined)) as NodeAnswer | undefined
      if (answer?.error !== undefined)
        throw Object.assign(new Error(String(answer.error.message)), { data: answer.error.data })
      if (!response.ok || answer === undefined) throw new Error(`HTTP status ${response.status}`)
      return answer.result
    },
  }
}
