import { DataStreamsError, ValidationError } from 'sluice/core'
import { checkURL, foreignCause, networkReason } from 'sluice/internal'
import type { Signers } from 'sluice/plugins/verify'
import {
  onchainSigners,
  type RequestingClient,
  verifierProxies,
} from 'sluice/plugins/verify/onchain'

/** The timeout of a request, in milliseconds. */
const TIMEOUT = 5000

/**
 * Reads the signers from a verifier contract. By default, this is the contract of the node’s
 * network.
 */
export async function findOnchainSigners(url: string, verifier?: string): Promise<Signers> {
  const client = connect(checkNodeURL(url))
  return onchainSigners({
    client,
    verifier: verifier ?? (await findVerifier(client)),
    timeout: TIMEOUT,
  })
}

/** Checks the URL of a node. The query may hold a key, so it is not checked. */
function checkNodeURL(given: string): string {
  const [base = '', query] = given.split('?')
  const url = checkURL('--onchain', base, ['http:', 'https:'])
  return query === undefined ? url : `${url}?${query}`
}

interface NodeAnswer {
  readonly result?: unknown
  readonly error?: { readonly code?: unknown; readonly message?: unknown; readonly data?: unknown }
}

interface NodeClient extends RequestingClient {
  request(args: { readonly method: string; readonly params: readonly unknown[] }): Promise<unknown>
}

/** A minimal client as in EIP-1193. */
function connect(url: string): NodeClient {
  return {
    async request({ method, params }) {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
        signal: AbortSignal.timeout(TIMEOUT),
      })
      const answer = (await response.json().catch(() => undefined)) as NodeAnswer | undefined
      if (answer?.error !== undefined)
        throw Object.assign(new Error(String(answer.error.message)), { data: answer.error.data })
      if (!response.ok || answer === undefined) throw new Error(`HTTP status ${response.status}`)
      return answer.result
    },
  }
}

async function findVerifier(client: NodeClient): Promise<string> {
  let chainID: number
  try {
    chainID = Number(await client.request({ method: 'eth_chainId', params: [] }))
  } catch (thrown) {
    const message = `the Ethereum node of --onchain can’t be asked for the number of its chain: ${networkReason(thrown)}`
    throw new DataStreamsError(message, { code: 'API_NETWORK', cause: foreignCause(thrown) })
  }
  const found = verifierProxies.find(each => each.chainID === chainID)
  if (found !== undefined) return found.address
  throw new ValidationError(
    `--verifier must be given: the verifier of chain ${chainID} is not in the list of this version`,
  )
}
