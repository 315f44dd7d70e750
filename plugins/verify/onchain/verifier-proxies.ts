import type { Hex } from './abi.js'

/** The contract of a network that verifies reports. */
export interface VerifierProxy {
  /** The name by which the documentation of the service lists it. */
  readonly network: string
  /** Undefined where no source of both the name and the number is at hand. */
  readonly chainID: number | undefined
  /** Whether the network is one for tests. */
  readonly isTestnet: boolean
  /** With the capitals of its checksum. */
  readonly address: Hex
}

type Row = readonly [network: string, chainID: number | undefined, isTestnet: boolean, address: Hex]

/*
 * The addresses: src/features/feeds/data/StreamsNetworksData.ts of github.com/smartcontractkit/documentation at commit
 * 59e5cde702f77672c34c9cf76d27735c390a1f98 (2026-08-21), which is the table of
 * https://docs.chain.link/data-streams/supported-networks. Its networks without an EVM (Aptos, Canton, Solana, Stellar) are left
 * out. The numbers of the chains: selectors.yml of github.com/smartcontractkit/chain-selectors at commit
 * 7bf600bc5765563ecc60c70548fca20e3a660928 (2026-08-11), where one name there is clearly meant.
 */
const rows: readonly Row[] = [
  ['0G Aristotle Mainnet', 16661, false, '0x673Dd1aA4Dafe735135d00058042D6ee3e85eF81'],
  ['0G Galileo Testnet', undefined, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['ADI Mainnet', 36900, false, '0x29b289DC5f840762FBF605FF4DF37df18FdA4e7a'],
  ['Apechain Mainnet', 33139, false, '0x2e6621e5e3F916d5e512124dD79e06b55E258054'],
  ['Apechain Curtis Testnet', 33111, true, '0x9D93c410AfDb41E8aEb1BA88B5Ff6DEAa09FF537'],
  ['Arbitrum Mainnet', 42161, false, '0x478Aa2aC9F6D65F84e09D9185d126c3a17c2a93C'],
  ['Arbitrum Sepolia', 421614, true, '0x2ff010DEbC1297f19579B4246cad07bd24F2488A'],
  ['Arc Testnet', 5042002, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Avalanche Mainnet', 43114, false, '0x79BAa65505C6682F16F9b2C7F8afEBb1821BE3f6'],
  ['Avalanche Fuji Testnet', 43113, true, '0x2bf612C65f5a4d388E687948bb2CF842FFb8aBB3'],
  ['Base Mainnet', 8453, false, '0xDE1A28D87Afd0f546505B28AB50410A5c3a7387a'],
  ['Base Sepolia', 84532, true, '0x8Ac491b7c118a0cdcF048e0f707247fD8C9575f9'],
  ['Berachain Mainnet', 80094, false, '0xC539169910DE08D237Df0d73BcDa9074c787A4a1'],
  ['Berachain bArtio Testnet', 80084, true, '0x5A1634A86e9b7BfEf33F0f3f3EA3b1aBBc4CC85F'],
  ['Bitlayer Mainnet', 200901, false, '0x6FDC15cad4f90a037B7126D7EFff105A9d03D6e7'],
  ['Bitlayer Testnet', 200810, true, '0x57A97148C1fa50f35F0639f380077017D8893b6b'],
  ['Blast Mainnet', 81457, false, '0xaB93491064aEE774BE4b8a1cFFe4421F5B124F4e'],
  ['Blast Sepolia Testnet', 168587773, true, '0x141f4278A5D71070Dc09CA276b72809b80F20eF0'],
  ['BNB Chain Mainnet', 56, false, '0xF276a4BC8Da323EA3E8c3c195a4E2E7615a898d1'],
  ['BNB Chain Testnet', 97, true, '0xF45D6dba93d0dB2C849C280F45e60D6e11b3C4DD'],
  ['Bob Mainnet', 60808, false, '0xF45D6dba93d0dB2C849C280F45e60D6e11b3C4DD'],
  ['Bob Sepolia Testnet', 808813, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Botanix Mainnet', 3637, false, '0xC539169910DE08D237Df0d73BcDa9074c787A4a1'],
  ['Botanix Testnet', 3636, true, '0xfBFff08fE4169853F7B1b5Ac67eC10dc8806801d'],
  ['Celo Mainnet', 42220, false, '0x57A97148C1fa50f35F0639f380077017D8893b6b'],
  ['Celo Testnet Alfajores', 44787, true, '0xfa58eE98c9d56A3e6e903f300BE8C60Bf031808D'],
  ['Ethereum Mainnet', 1, false, '0x5A1634A86e9b7BfEf33F0f3f3EA3b1aBBc4CC85F'],
  ['Sepolia Testnet', 11155111, true, '0x4e9935be37302B9C97Ff4ae6868F1b566ade26d2'],
  ['DogeOS Chikyu Testnet', 6281971, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Giwa Sepolia', undefined, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Gnosis Mainnet', 100, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Gnosis Chiado', 10200, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Gravity Alpha Mainnet', undefined, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Gravity Alpha Testnet Sepolia', undefined, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['HashKey Chain Mainnet', 177, false, '0x3278e7a582B94d82487d4B99b31A511CbAe2Cd54'],
  ['HashKey Chain Testnet', 133, true, '0xE02A72Be64DA496797821f1c4BB500851C286C6c'],
  ['Hedera Mainnet', 295, false, '0x38818Ba0e01E7743F5c001e8Aae095dE56a137db'],
  ['Hedera Testnet', 296, true, '0x57A97148C1fa50f35F0639f380077017D8893b6b'],
  ['HyperEVM Mainnet', 999, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['HyperEVM Testnet', 998, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Ink Mainnet', 57073, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Ink Sepolia Testnet', 763373, true, '0x1f27392cC2394d54fFBA83B89C881200b5d5632C'],
  ['Injective EVM Mainnet', undefined, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Injective Testnet', undefined, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Jovay Mainnet', 5734951, false, '0xF1Ee15ecca3aD06edF9603a1ea6d19043804522A'],
  ['Jovay Sepolia Testnet', 2019775, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Katana Mainnet', 747474, false, '0x2a644E5AC685112A7Eff0c4d73CD0260546D366F'],
  ['Katana Testnet (Bokuto)', undefined, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Lens Mainnet', 232, false, '0xD9A79903359B4Dedf3a9c26AB47D4a8Fc62A70A2'],
  ['Lens Testnet', 37111, true, '0x5c0a4924535667ee025dDA78fCb0F213664927d5'],
  ['Linea Mainnet', 59144, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Linea Sepolia Testnet', 59141, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Mantle Mainnet', 5000, false, '0x223752Eb475098e79d10937480DF93864D7EfB83'],
  ['Mantle Sepolia Testnet', 5003, true, '0xdc458847982C496E1a5E25D005A332D5a838302B'],
  ['MegaETH Mainnet', 4326, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['MegaETH Testnet', undefined, true, '0xa33c1F0561eECe58ee7b7349D5BE018dd94EC9B6'],
  ['Metis Andromeda Mainnet', 1088, false, '0xC539169910DE08D237Df0d73BcDa9074c787A4a1'],
  ['Metis Sepolia Testnet', 59902, true, '0xcFC9A8Efad365B04253575326f6A9bcDD8131Eb7'],
  ['Monad Mainnet', 143, false, '0xEd813D895457907399E41D36Ec0bE103E32148c8'],
  ['Monad Testnet', 10143, true, '0xC539169910DE08D237Df0d73BcDa9074c787A4a1'],
  ['opBNB Mainnet', 204, false, '0x7D543D1a715ED544f7e3Ae9e3b1777BCdA56bF8e'],
  ['opBNB Testnet', 5611, true, '0x001225Aca0efe49Dbb48233aB83a9b4d177b581A'],
  ['OP Mainnet', 10, false, '0xEBA4789A88C89C18f4657ffBF47B13A3abC7EB8D'],
  ['OP Sepolia', 11155420, true, '0x5f64394a2Ab3AcE9eCC071568Fc552489a8de7AF'],
  ['Perennial Mainnet', undefined, false, '0xC539169910DE08D237Df0d73BcDa9074c787A4a1'],
  ['Perennial Testnet', undefined, true, '0xF94Fc3DfD2875AECBEfDA8b7bFA05884fbF1E042'],
  ['Pharos Mainnet (Private)', undefined, false, '0xa094978891512268f4a4a4641B8da1A2a3E3BEB7'],
  ['Pharos Atlantic Testnet', 688689, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Polygon Mainnet', 137, false, '0xF276a4BC8Da323EA3E8c3c195a4E2E7615a898d1'],
  ['Polygon Amoy Testnet', 80002, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Plasma Mainnet', 9745, false, '0xB4626C56c8d66b09adC57e38a5A15CcCd51BE082'],
  ['Plasma Testnet', 9746, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Robinhood Chain Mainnet', 4663, false, '0xcE73c8ad08CBDEaCa6078BF0627C8fe0a9a536E7'],
  ['Robinhood Chain Testnet', 46630, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Ronin Mainnet', 2020, false, '0x499Ce6718a50e154B0C69905eEE8D307e5B003cc'],
  ['Ronin Saigon Testnet', 2021, true, '0xE02A72Be64DA496797821f1c4BB500851C286C6c'],
  ['Scroll Mainnet', 534352, false, '0x37e550C9b35DB56F9c943126F1c2642fcbDF7B51'],
  ['Scroll Sepolia Testnet', 534351, true, '0xE17A7C6A7c2eF0Cb859578aa1605f8Bc2434A365'],
  ['Sei Mainnet', 1329, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Sei Testnet', 1328, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Seismic Testnet', undefined, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Shibarium Mainnet', 109, false, '0xBE9f07f73de2412A9d0Ed64C42De7d9A10C9F28C'],
  ['Shibarium Puppynet', 157, true, '0xc44eb6c00A0F89D044279cD91Bdfd5f62f752Da3'],
  ['Soneium Mainnet', 1868, false, '0x8760535A80Ac5908096B57A094266866f4aA1A8c'],
  ['Soneium Minato Testnet', 1946, true, '0x26603bAC5CE09DAE5604700B384658AcA13AD6ae'],
  ['Sonic Mainnet', 146, false, '0xfBFff08fE4169853F7B1b5Ac67eC10dc8806801d'],
  ['Sonic Blaze Testnet', 57054, true, '0xfBFff08fE4169853F7B1b5Ac67eC10dc8806801d'],
  ['Stable Mainnet', 988, false, '0x06034790F8b6c2573B91704BeC6Ab380cB590237'],
  ['Stable Testnet', 2201, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['X Layer Mainnet', 196, false, '0xcE73c8ad08CBDEaCa6078BF0627C8fe0a9a536E7'],
  ['X Layer Testnet', undefined, true, '0x72790f9eB82db492a7DDb6d2af22A270Dcc3Db64'],
  ['Taiko Alethia Mainnet', 167000, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Taiko Hekla Testnet', 167009, true, '0xF45D6dba93d0dB2C849C280F45e60D6e11b3C4DD'],
  ['Unichain Mainnet', 130, false, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['Unichain Sepolia Testnet', 1301, true, '0x60fAa7faC949aF392DFc858F5d97E3EEfa07E9EB'],
  ['World Chain Mainnet', 480, false, '0x6733e9106094b0C794e8E0297c96611fF60460Bf'],
  ['World Chain Sepolia Testnet', 4801, true, '0xd61ceB4521453F147C58d22879B4ec539331F851'],
  ['ZKSync Era Mainnet', 324, false, '0xcA64d9D1a9AE4C10E94D0D45af9E878fc64dc207'],
  ['ZKSync Sepolia Testnet', 300, true, '0xDf37875775d1E777bB413f27de093A62CFF4264b'],
]

/**
 * The VerifierProxy of each EVM network that the service listed on 21 August 2026. Whether an address is still the right one can
 * be seen on https://docs.chain.link/data-streams/supported-networks alone.
 */
export const verifierProxies: readonly VerifierProxy[] = /* @__PURE__ */ rows.map(
  ([network, chainID, isTestnet, address]) => ({ network, chainID, isTestnet, address }),
)
