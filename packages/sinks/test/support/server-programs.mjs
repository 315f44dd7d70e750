// What the servers of the tests have in common: programs, free ports, packages of Debian.
import { spawnSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { createServer } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/** True for a program that this process may start. */
export function isProgram(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** The paths at which a program may lie. */
export const onPath = name =>
  (process.env.PATH ?? '').split(delimiter).map(folder => join(folder, name))

/** Installs packages of Debian and its like, where root runs the tests. */
export function installPackages(...names) {
  if (process.getuid?.() !== 0 || !onPath('apt-get').some(isProgram)) return
  console.log(`test:sinks installs ${names.join(' ')}`)
  const stdio = ['ignore', 'ignore', 'inherit']
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) => spawnSync('apt-get', ['-q', ...args], { stdio, env }).status === 0
  const add = () => apt('install', '-y', '--no-install-recommends', ...names)
  if (!add() && apt('update')) add()
}

/** Ports of 127.0.0.1 that are free now. */
export async function freePorts(count) {
  const servers = await Promise.all(
    Array.from({ length: count }, async () => {
      const server = createServer().listen(0, '127.0.0.1')
      await new Promise((resolve, reject) =>
        server.once('listening', resolve).once('error', reject),
      )
      return server
    }),
  )
  const ports = servers.map(server => server.address().port)
  await Promise.all(servers.map(server => new Promise(resolve => server.close(resolve))))
  return ports
}

/** Resolves when `isUp` does with true. Rejects when the process could not start, or has ended. */
export async function waitUntilUp(child, isUp, output) {
  let failure
  child.once('error', error => {
    failure = error.message
  })
  while (!(await isUp())) {
    if (failure !== undefined || child.exitCode !== null || child.signalCode !== null)
      throw new Error(`${child.spawnfile} did not start: ${failure ?? 'it ended'}\n${output()}`)
    await sleep(30)
  }
}

/** Ends a process by a signal, and resolves when it has ended. */
export async function endProcess(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise(resolve => child.once('exit', resolve))
  child.kill(signal)
  // A stopped process heeds no signal but SIGKILL.
  if (signal !== 'SIGKILL') child.kill('SIGCONT')
  await ended
}
