// The runtimes that the package is tested on, each a package of the registry that holds it, fetched once.
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { install, root } from '../package/steps.mjs'

const isWindows = process.platform === 'win32'
const binary = name => (isWindows ? `${name}.exe` : name)
const node = version => ({
  spec: `node@${version}`,
  path: ['node', 'bin', binary('node')],
  args: [],
})

/** By the name that a user gives. Raise the versions on purpose. */
const known = {
  node20: node('20.20.2'),
  node22: node('22.23.3'),
  node24: node('24.21.0'),
  bun: { spec: 'bun@1.4.5', path: ['bun', 'bin', 'bun.exe'], args: ['run'] },
  deno: {
    spec: 'deno@2.9.6',
    path: ['deno', binary('deno')],
    // The packages are those that npm has installed. It needs the network and nothing else, but for the environment.
    args: [
      'run',
      '--node-modules-dir=manual',
      '--no-lock',
      '--no-remote',
      '--allow-net',
      '--allow-env',
      '--allow-read',
      '--allow-sys',
      '--allow-ffi',
    ],
  },
}

export const names = Object.keys(known)

/** Fetches a runtime unless it is here: its command, and the arguments before the program. */
export async function fetchRuntime(name) {
  const { spec, path, args } = known[name]
  const folder = join(root, 'node_modules', '.cache', 'sluice-runtimes', spec)
  const command = join(folder, 'node_modules', ...path)
  if (!existsSync(command)) {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'package.json'), '{ "private": true }')
    await install(folder, [spec])
  }
  return { name: spec.replace('@', ' '), command, args }
}
