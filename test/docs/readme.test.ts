import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from '@jest/globals'
import { transformSync } from 'esbuild'
import ts from 'typescript'

const root = join(__dirname, '../..')
const readme = readFileSync(join(root, 'README.md'), 'utf8')
const blocks = [...readme.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(match => match[1] as string)

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
function programOf(block: string): string {
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

test('every block compiles under strict', () => {
  const files = new Map(
    blocks.map((block, index) => [
      join(root, 'examples/.out', `readme-${index}.ts`),
      programOf(block),
    ]),
  )
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.parseJsonConfigFileContent(config, ts.sys, root)
  const settings: ts.CompilerOptions = {
    ...options,
    isolatedDeclarations: false,
    declaration: false,
    noEmit: true,
  }
  const host = ts.createCompilerHost(settings)
  const { getSourceFile, fileExists, readFile } = host
  host.fileExists = name => files.has(name) || fileExists(name)
  host.readFile = name => files.get(name) ?? readFile(name)
  host.getSourceFile = (name, ...rest) => {
    const text = files.get(name)
    return text === undefined
      ? getSourceFile(name, ...rest)
      : ts.createSourceFile(name, text, rest[0])
  }
  const program = ts.createProgram([...files.keys()], settings, host)
  const problems = ts.getPreEmitDiagnostics(program).map(({ file, messageText, start }) => {
    const line = file?.text.slice(0, start).split('\n').length
    return `${file?.fileName}:${line} ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
  expect(problems).toEqual([])
  expect(blocks.length).toBeGreaterThan(7)
}, 60_000)

test('every npm script that it names is there', () => {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const named = [...readme.matchAll(/npm run ([\w:]+)/g)].map(match => match[1] as string)
  expect(named.length).toBeGreaterThan(3)
  for (const name of named) expect(Object.keys(scripts)).toContain(name)
})

/** Where the programs leave their files. */
const folder = mkdtempSync(join(tmpdir(), 'sluice-readme-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function run(path: string): Promise<{ code: number | null; out: string }> {
  return new Promise(resolve => {
    const child = spawn(process.execPath, [path], { cwd: folder })
    let out = ''
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', chunk => {
        out += chunk
      })
    }
    const guard = setTimeout(() => child.kill('SIGKILL'), 15_000)
    child.on('close', code => {
      clearTimeout(guard)
      resolve({ code, out })
    })
  })
}

function compile(name: string, source: string): string {
  const out = join(root, 'examples/.out')
  mkdirSync(out, { recursive: true })
  const path = join(out, `${name}.mjs`)
  writeFileSync(path, transformSync(source, { loader: 'ts', format: 'esm', target: 'node20' }).code)
  return path
}

describe('every block runs', () => {
  test.each(
    blocks.map((block, index) => [
      index,
      block.split('\n').find(line => !line.startsWith('import') && line.trim()),
      block,
    ]),
  )('block %d: %s', async (index, _line, block) => {
    const { code, out } = await run(compile(`readme-${index}`, programOf(block as string)))
    expect(out).not.toMatch(/Error|\n {4}at /)
    expect(code).toBe(0)
    if (String(block).includes('startFaultProxy(')) expect(out).toMatch(/^reset at frame 5$/m)
  })
})

describe('every example runs', () => {
  const expected = {
    'default-preset': /accepted: 6,[\s\S]*rejected: 0/,
    'custom-stack': /├ lag {11}report[\s\S]*price \d{20}/,
    'third-party-decoder':
      /price: 3141500000000000000n,\n {2}halted: true,\n {2}updatedAt: 1753900000123456789n/,
    'confidential-local': /ok true, 42 encrypted bytes\n\{"known":true\}/,
    'confidential-remote': /\{ known: true \}/,
    'verify-onchain':
      /(3 of 3 signatures, 0x\w{64}\n){3}the node was asked 1 times\nrefused: unknown-digest/,
    'third-party-logger': /listFeeds succeeded[\s\S]*warn: 1/,
  }
  test.each(Object.entries(expected))('%s', async (name, output) => {
    const { code, out } = await run(
      compile(name, readFileSync(join(root, 'examples', `${name}.ts`), 'utf8')),
    )
    expect(out).toMatch(output)
    expect(code).toBe(0)
  })
})
