// What was measured, by version.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../package/steps.mjs'
import { versionOfSister } from './sisters.mjs'

const packages = {
  official: '@chainlink/data-streams-sdk',
  viem: 'viem',
  ethers: 'ethers',
  ws: 'ws',
}

const versionIn = (...path) =>
  JSON.parse(readFileSync(join(root, ...path, 'package.json'), 'utf8')).version

/** The version of each side: of this library, of packages, and of the sisters that were built. */
export const versionsOf = sisters => ({
  sluice: versionIn(),
  ...Object.fromEntries(
    Object.entries(packages).map(([side, name]) => [side, versionIn('node_modules', name)]),
  ),
  ...Object.fromEntries(sisters.map(name => [name, versionOfSister(name)])),
})
