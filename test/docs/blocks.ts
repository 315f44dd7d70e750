import { readFileSync } from 'node:fs'
import { join } from 'node:path'

export const root: string = join(__dirname, '../..')
export const readme: string = readFileSync(join(root, 'README.md'), 'utf8')
/** The blocks of TypeScript in the README. */
export const blocks: readonly string[] = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(
  match => match[1] as string,
)

/** What the blocks take for granted: credentials, two feeds, who signs, and a service. */
const prelude = `
import { startDataEngine as startReadmeEngine } from 'sluice/local'
const readmeEngine = await startReadmeEngine({
  feeds: ['0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782', '0x00037da06d56d083fe599397a4769a042d63aa73dc4ef57709d31e9971a5b439'],
  intervalMs: 250,
  runAhead: true,
  origins: 2,
  history: 30,
})
const { apiKey, userSecret, endpoint, wsEndpoint } = readmeEngine
const [ethUsd, btcUsd] = readmeEngine.feeds as [string, string]
const signers = readmeEngine.network
void [apiKey, userSecret, endpoint, wsEndpoint, ethUsd, btcUsd, signers]
setTimeout(() => process.exit(0), 1000)
`

/** What the blocks about confidential HTTP take for granted: a folder to work in, a vault, an API and an AES key. */
const confidentialPrelude = `
import { mkdtempSync as makeReadmeFolder } from 'node:fs'
import { tmpdir as readmeTmpdir } from 'node:os'
import { createVault as createReadmeVault, startHTTPSServer as startReadmeAPI } from 'sluice/local'
process.chdir(makeReadmeFolder(\`\${readmeTmpdir()}/sluice-readme-\`))
const readmeAPI = await startReadmeAPI()
const aesKey = 'ab'.repeat(32)
void [readmeAPI, aesKey]
setTimeout(() => process.exit(0), 4000).unref()
`
const readmeVault = `
const readmeVault = await createReadmeVault('./vault')
await readmeVault.put({ key: 'apiKey' }, 'a-secret')
await readmeVault.put({ key: 'san_marino_aes_gcm_encryption_key' }, aesKey)
`

/** Imports first, then the prelude unless the block has a service of its own, then the block. */
export function programOf(block: string): string {
  const imports = block.match(/^import [^']*'.*'$/gm) ?? []
  const body = block.replace(/^import [^']*'.*'$/gm, '')
  if (/'sluice\/confidential-http'|createVault/.test(block)) {
    const closed = body.replace(
      /url: 'https:\/\/api\.example\.com(\/[^']*)'/,
      'customRootCaCertPem: readmeAPI.ca, url: readmeAPI.url + "$1"',
    )
    const vault = body.includes('createVault(') ? '' : readmeVault
    const ending = 'await readmeAPI.close()'
    return `${imports.join('\n')}\n${confidentialPrelude}${vault}\n${closed}\n${ending}`
  }
  const own = body.includes('startDataEngine(')
    ? prelude
        .replace(/const \{ apiKey.*\n/, '')
        .replace('apiKey, userSecret, endpoint, wsEndpoint, ', '')
        // What it waits for begins with a service that has yet to start.
        .replace('process.exit(0), 1000', 'process.exit(0), 4000')
    : prelude
  return `${imports.join('\n')}\n${own}\n${body}`
}
