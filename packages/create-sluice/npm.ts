import { spawn } from 'node:child_process'
import { basename } from 'node:path'

/** What `npm create` adds to the environment. It would send an inner npm to the outer folder. */
const ofOuterNpm = /^npm_(package|lifecycle|command|config_local_prefix)/

/** Installs the dependencies of a project. Resolves with whether npm succeeded. */
export function installDependencies(
  folder: string,
  env: Readonly<Record<string, string | undefined>>,
): Promise<boolean> {
  const options = {
    cwd: folder,
    env: Object.fromEntries(Object.entries(env).filter(([name]) => !ofOuterNpm.test(name))),
    stdio: 'inherit',
  } as const
  const script = env.npm_execpath ?? ''
  const child = /^npm-cli\.c?js$/.test(basename(script))
    ? spawn(process.execPath, [script, 'install'], options)
    : // For Windows: npm is npm.cmd there, which nothing but a shell starts.
      spawn('npm', ['install'], { ...options, shell: process.platform === 'win32' })
  return new Promise(resolve => {
    child.on('error', () => resolve(false))
    child.on('close', code => resolve(code === 0))
  })
}
