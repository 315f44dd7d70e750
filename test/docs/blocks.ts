import { type Block, blocksOf, pages, readmes } from './pages.js'

/** The blocks of TypeScript of all pages and of the packages' READMEs: each is compiled and run. */
export const blocks: readonly Block[] = [...pages, ...readmes]
  .flatMap(blocksOf)
  .filter(({ language }) => language === 'ts')

/** What the blocks take for granted, and where a block gets it from. */
const given: Readonly<Record<string, string>> = {
  apiKey: 'docsEngine.apiKey',
  userSecret: 'docsEngine.userSecret',
  endpoint: 'docsEngine.endpoint',
  wsEndpoint: 'docsEngine.wsEndpoint',
  ethUsd: 'docsEngine.feeds[0] as string',
  btcUsd: 'docsEngine.feeds[1] as string',
  signers: 'docsEngine.network',
}

/** A service with two feeds of the testnet, whose keys are in the environment. */
const service = `
import { startDataEngine as startDocsEngine } from '@sluice/engine'
const docsEngine = await startDocsEngine({
  feeds: ['0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782', '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439'],
  intervalMs: 250,
  runAhead: true,
  origins: 2,
  history: 30,
})
process.env.API_KEY = docsEngine.apiKey
process.env.USER_SECRET = docsEngine.userSecret
`
/** The URLs and the feeds of the real service, where a block names them, are those of the local one. */
const realURLs: readonly (readonly [RegExp, string])[] = [
  [/'https:\/\/api\.(testnet-)?dataengine\.chain\.link'/g, 'docsEngine.endpoint'],
  [/'wss:\/\/ws\.(testnet-)?dataengine\.chain\.link'/g, 'docsEngine.wsEndpoint'],
  [/\bknownFeeds\.mainnet\b/g, 'knownFeeds.testnet'],
  [
    /\.\.\.endpoints\.(testnet|mainnet)/g,
    '...(endpoints && { endpoint: docsEngine.endpoint, wsEndpoint: docsEngine.wsEndpoint })',
  ],
]

/** What the blocks about confidential HTTP take for granted: a folder to work in, a vault, an API and an AES key. */
const api = `
import { createVault as createDocsVault } from '@sluice/confidential-http/vault'
import { startHTTPSServer as startDocsAPI } from '@sluice/engine'
const docsAPI = await startDocsAPI()
const aesKey = 'ab'.repeat(32)
void aesKey
`
const vault = `
const docsVault = await createDocsVault('./vault')
await docsVault.put({ key: 'apiKey' }, 'a-secret', { policy: 'anywhere' })
await docsVault.put({ key: 'san_marino_aes_gcm_encryption_key' }, aesKey, { policy: 'anywhere' })
`
/** Of a policy for that API: in the tests it runs on loopback, which no policy may name. */
const apiPolicy = /policy: \{ hosts: \['api\.example\.com'\] \}/g
const apiURL = /url: 'https:\/\/api\.example\.com(\/[^']*)'/g

/** An import, over several lines too. */
const imports = /^import [^']*'.*'$/gm

/** True where a block declares the name itself: `const name =`, `const { name } =`. */
const declares = (body: string, name: string): boolean =>
  new RegExp(`\\bconst (${name}\\b|[{[][^=]*\\b${name}\\b(?! *:)[^=]*[}\\]] =)`).test(body)

/**
 * The block as a program: imports first, then what it takes for granted, then the block. It ends a moment after the block
 * has come to its end, so that handlers are called; a block that does not come to its end is a failure.
 */
export function programOf({ code }: Block): string {
  const body = code.replace(imports, '')
  const head = (code.match(imports) ?? []).join('\n')
  if (/'@sluice\/confidential-http'|createVault/.test(code)) {
    const closed = body
      .replace(apiURL, 'customRootCaCertPem: docsAPI.ca, url: docsAPI.url + "$1"')
      .replace(apiPolicy, "policy: 'anywhere'")
    const stored = body.includes('createVault(') ? '' : vault
    return `${head}\n${api}${stored}\n${closed}\nawait docsAPI.close()\nprocess.exit(0)\n`
  }
  // A test of jest runs in jest, and starts an engine itself.
  if (code.includes("from '@jest/globals'")) return `${head}\n${body}\n`
  // While the kit runs, the timers of the process are virtual: an engine would stand still.
  if (code.includes("from 'sluice/testing'")) return `${head}\n${body}\n`
  const real = realURLs.reduce((text, [url, local]) => text.replace(url, local), body)
  const constants = Object.entries(given)
    .filter(([name]) => new RegExp(`\\b${name}\\b`).test(real) && !declares(real, name))
    .map(([name, value]) => `const ${name} = ${value}\nvoid ${name}`)
  const end = 'setTimeout(() => process.exit(0), 700)'
  return `${head}\n${service}${constants.join('\n')}\n${real}\n${end}\n`
}
