export type { Hex } from './abi.js'
export type { EthereumClient, RequestingClient, SendingClient } from './node.js'
export {
  type OnchainSigners,
  type OnchainSignersOptions,
  onchainSigners,
} from './onchain-signers.js'
export {
  encodeParameterPayload,
  encodeVerify,
  encodeVerifyBulk,
  verifierProxyABI,
  verifyArgs,
  verifyBulkArgs,
} from './payloads.js'
export { type VerifierProxy, verifierProxies } from './verifier-proxies.js'
