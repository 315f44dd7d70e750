import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from '@jest/globals'
import { startDataEngine } from '@sluice/engine'
import { startCommand } from '@sluice/test-support/command.js'
import { root } from '@sluice/test-support/sources.js'

/** A Node that is no longer maintained, of the package that holds it; fetched once. */
function fetchNode(version: string): string {
  const folder = join(root, 'node_modules', '.cache', 'sluice-runtimes', `node@${version}`)
  const path = join(folder, 'node_modules', 'node', 'bin', 'node')
  if (existsSync(path)) return path
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{ "private": true }')
  const args = ['install', '--no-audit', '--no-fund', '--no-package-lock', `node@${version}`]
  const { status, stderr } = spawnSync('npm', args, { cwd: folder, encoding: 'utf8' })
  if (status !== 0) throw new Error(stderr)
  return path
}

test('an old Node runs the command far enough to be named', async () => {
  await using engine = await startDataEngine({ origins: 2 })
  const { endpoint, wsEndpoint, apiKey, userSecret } = engine
  const { code, out } = await startCommand(['doctor', '--seconds', '1'], {
    node: fetchNode('18.20.8'),
    env: { REST_URL: endpoint, WS_URL: wsEndpoint, API_KEY: apiKey, USER_SECRET: userSecret },
  }).ended
  expect(out).toMatch(/^failed {7}node {9}18\.20\.8 is too old: sluice .* needs Node >=20\.0\.0\n/)
  expect(out).toMatch(/\n1 failed, /)
  expect(code).toBe(1)
}, 300_000)
