// Runs plain jest projects, without a transform or a setting that is not in them, on the installed package.
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { root, runScript } from './steps.mjs'

const projects = [
  { name: 'commonjs' },
  { name: 'esm', NODE_OPTIONS: '--experimental-vm-modules' },
  { name: 'jsdom' },
  { name: 'jsdom-as-it-is' },
]

/** The checks; `folder` is where the package and its vectors are installed. */
export function jestChecks(folder, checkGated) {
  const copied = join(folder, 'jest')
  cpSync(join(root, 'test', 'package', 'jest'), copied, { recursive: true })
  return projects.map(({ name, NODE_OPTIONS = '' }) =>
    checkGated(`jest: ${name}`, async () => {
      // This repository's jest, which is nowhere above that folder; the rest is the project's own.
      const args = ['--ci', '--runInBand', '--testTimeout=30000']
      const env = { ...process.env, NODE_OPTIONS }
      const { stderr } = await runScript('jest/bin/jest.js', args, { cwd: join(copied, name), env })
      return /^Tests: +(.+)$/m.exec(stderr)?.[1]
    }),
  )
}
