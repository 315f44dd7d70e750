export type { Hex } from './onchain/abi.js'
export type { EthereumClient, RequestingClient, SendingClient } from './onchain/node.js'
export {
  type OnchainSigners,
  type OnchainSignersOptions,
  onchainSigners,
} from './onchain/onchain-signers.js'
export {
  encodeParameterPayload,
  encodeVerify,
  encodeVerifyBulk,
  verifierProxyABI,
  verifyArgs,
  verifyBulkArgs,
} from './onchain/payloads.js'
export { type VerifierProxy, verifierProxies } from './onchain/verifier-proxies.js'
