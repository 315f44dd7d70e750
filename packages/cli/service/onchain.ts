import { DataStreamsError, ValidationError } from 'sluice/core'
import {
  checkNodeURL,
  connectNode,
  foreignCause,
  type NodeClient,
  networkReason,
} from 'sluice/internal'
import type { Signers } from 'sluice/plugins/verify'
import { onchainSigners, verifierProxies } from 'sluice/plugins/verify/onchain'

/** The timeout of a request, in milliseconds. */
const TIMEOUT = 5000

/**
 * Reads the signers from a verifier contract. By default, this is the contract of the node’s
 * network.
 */
export async function findOnchainSigners(url: string, verifier?: string): Promise<Signers> {
  const client = connectNode(checkNodeURL('--onchain', url), TIMEOUT)
  return onchainSigners({
    client,
    verifier: verifier ?? (await findVerifier(client)),
    timeout: TIMEOUT,
  })
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
