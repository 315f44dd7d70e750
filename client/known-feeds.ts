import { parseFeedID } from '../report/feed-id.js'
import type { Feed } from './rest.js'

/** A feed with all the fields that the service may leave out. */
export type KnownFeed = Required<Feed>

/** The names of the known feeds of mainnet. */
type MainnetName =
  | 'BTC/USD'
  | 'ETH/USD'
  | 'SOL/USD'
  | 'XRP/USD'
  | 'BNB/USD'
  | 'DOGE/USD'
  | 'ADA/USD'
  | 'TRX/USD'
  | 'LINK/USD'
  | 'AVAX/USD'
  | 'SUI/USD'
  | 'LTC/USD'
  | 'DOT/USD'
  | 'UNI/USD'
  | 'AAVE/USD'
  | 'ARB/USD'
  | 'OP/USD'
  | 'NEAR/USD'
  | 'TON/USD'
  | 'BCH/USD'
  | 'USDC/USD'
  | 'USDT/USD'
  | 'DAI/USD'
/** The names of the known feeds of testnet. */
type TestnetName = 'BTC/USD' | 'ETH/USD' | 'LINK/USD' | 'SOL/USD'

/*
 * Prices in US dollars, of version 3. Reports contain no names and decimals, and the service may
 * leave names and decimals out.
 *
 * Source: config/tokens.ts of github.com/gmx-io/gmx-synthetics, settings of deployed contracts with
 * the id and the decimals of each feed (always 18). Last changed on 2025-11-06 (commit
 * 1d92967d3d17), read on 2026-11-23.
 */
const ids: Readonly<{
  mainnet: Record<MainnetName, string>
  testnet: Record<TestnetName, string>
}> = {
  mainnet: {
    'BTC/USD': '0x00039d9e45394f473ab1f050a1b963e6b05351e52d71e507509ada0c95ed75b8',
    'ETH/USD': '0x000362205e10b3a147d02792eccee483dca6c7b44ecce7012cb8c6e0b68b3ae9',
    'SOL/USD': '0x0003b778d3f6b2ac4991302b89cb313f99a42467d6c9c5f96f57c29c0d2bc24f',
    'XRP/USD': '0x0003c16c6aed42294f5cb4741f6e59ba2d728f0eae2eb9e6d3f555808c59fc45',
    'BNB/USD': '0x000335fd3f3ffa06cfd9297b97367f77145d7a5f132e84c736cc471dd98621fe',
    'DOGE/USD': '0x000356ca64d3b32135e17dc0dc721a645bf50d0303be8ceb2cdca0a50bab8fdc',
    'ADA/USD': '0x00038580225b924c69e28ea101d4723d90c1b44ab83548a995c3d86ad9e92eb0',
    'TRX/USD': '0x000310286f692877b46996d4c597fea8270d1922cc4ddf486165a192ed70111a',
    'LINK/USD': '0x00036d7a1251e3f67d6658466b5e9e7fe8418af7feac9567ff322bff95cc2401',
    'AVAX/USD': '0x0003b1cb55b8a00a18111ff745b56d70f04c2d41e03fc7fd8d3d9b09f142aad9',
    'SUI/USD': '0x000348ce31679e9ce1f80ec929f1d7c86499569d67f1cea80a90d6e5e3c127a7',
    'LTC/USD': '0x00033a4f1021830ac0e7b7a03f70ed56fecb0ac2a10c8ea5328c240c847b71f3',
    'DOT/USD': '0x0003fdcc3acfa677b4f82bd4b8a6efaca91adcd9ae028e9f8cb65d1a85122b23',
    'UNI/USD': '0x000367a3674cdd7cc83dbbd7d19f3768b9d1329586e82e32a1bf388fc5ffd0eb',
    'AAVE/USD': '0x0003481a2f7fe21c01d427f39035541d2b7a53db9c76234dc36082e6ad6db7f5',
    'ARB/USD': '0x00030ab7d02fbba9c6304f98824524407b1f494741174320cfd17a2c22eec1de',
    'OP/USD': '0x0003ba5e477371c9cd5446281354a91e66c233dd50e26efe6abbfdc310b92dab',
    'NEAR/USD': '0x00036e9386eda6b177c6f7e9d493e60ae9ebaeb732a271b880b4d6a131d6b3f5',
    'TON/USD': '0x0003f9ec12942ff27b28ab151905c8fc1cb280518d8bbd3885d410eaa50ddc56',
    'BCH/USD': '0x00031dcbdf6f280392039ea6381b85a23bc0b90a40b676c4ec0b669dd8f0f38e',
    'USDC/USD': '0x00038f83323b6b08116d1614cf33a9bd71ab5e0abf0c9f1b783a74a43e7bd992',
    'USDT/USD': '0x0003a910a43485e0685ff5d6d366541f5c21150f0634c5b14254392d1a1c06db',
    'DAI/USD': '0x0003571a596aab1cafe1a883795dab90cd8cca48e25f53ab3665aa67d008f386',
  },
  testnet: {
    'BTC/USD': '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439',
    'ETH/USD': '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782',
    'LINK/USD': '0x00036fe43f87884450b4c7e093cd5ed99cac6640d8c2000e6afc02c8838d0265',
    'SOL/USD': '0x0003d338ea2ac3be9e026033b1aa601673c37bab5e13851c59966f9f820754d6',
  },
}

function feedsOf<Name extends string>(
  of: Readonly<Record<Name, string>>,
): Readonly<Record<Name, KnownFeed>> {
  const feeds = Object.entries<string>(of).map(([name, feedID]) => {
    const [asset, quoteAsset] = name.split('/')
    return [name, Object.freeze({ feedID, name, decimals: 18, asset, quoteAsset })]
  })
  return Object.freeze(Object.fromEntries(feeds))
}

/**
 * Some well-known feeds by network and name, with ids and decimals: prices in US dollars, as of
 * 2026-11-23. The service adds and retires feeds. `listFeeds()` lists the feeds that you may read.
 * https://docs.chain.link/data-streams/crypto-streams lists all feeds.
 *
 * @example
 * ```ts
 * const { feedID, decimals } = knownFeeds.mainnet['ETH/USD']
 * ```
 */
export const knownFeeds: {
  /** The feeds of mainnet, by names such as `ETH/USD`. */
  readonly mainnet: Readonly<Record<MainnetName, KnownFeed>>
  /** The feeds of testnet, by names such as `ETH/USD`. */
  readonly testnet: Readonly<Record<TestnetName, KnownFeed>>
} = Object.freeze({ mainnet: feedsOf(ids.mainnet), testnet: feedsOf(ids.testnet) })

const byID = new Map<string, KnownFeed>(
  Object.values(knownFeeds)
    .flatMap(feeds => Object.values<KnownFeed>(feeds))
    .map(feed => [feed.feedID, feed]),
)

/**
 * Finds a well-known feed by its id, in upper or lower case; undefined for other feeds. Throws a
 * ValidationError if the id is not `0x` and 64 hexadecimal digits.
 */
export function findFeed(feedID: string): KnownFeed | undefined {
  return byID.get(parseFeedID(feedID))
}
