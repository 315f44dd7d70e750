// The official SDKs of other languages as sides of their own: programs of `sides/`, built against the SDKs in their registries
// when they are asked for, where the tools of their languages are.
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../package/steps.mjs'

const cache = join(root, 'node_modules', '.cache', 'bench-sides')
const folderOf = name => join(root, 'test', 'bench', 'sides', name)

/** Each with the command that builds it, the program that comes of it, and where its own files name the version of the SDK. */
const languages = {
  go: {
    title: 'the official SDK for Go',
    build: ['go', 'build', '-trimpath', '-o', join(cache, 'go')],
    program: join(cache, 'go'),
    toolchain: ['go', 'version'],
    version: ['go.mod', /data-streams-sdk\/go v(\S+)/],
  },
  rust: {
    title: 'the official SDK for Rust',
    build: ['cargo', 'build', '--release', '--target-dir', join(cache, 'rust')],
    program: join(cache, 'rust', 'release', 'bench-side-rust'),
    toolchain: ['rustc', '--version'],
    version: ['Cargo.toml', /data-streams-sdk = "=(.+)"/],
  },
}

export const sisterNames = Object.keys(languages)
export const titleOf = name => languages[name].title

const run = ([command, ...args], options) =>
  spawnSync(command, args, { encoding: 'utf8', ...options })

/** What went wrong, in a line: the first that names an error, or the first that is no progress. */
function reasonOf({ error, stderr, status }, command) {
  if (error?.code === 'ENOENT') return `there is no ${command} here`
  if (error !== undefined) return error.message
  const lines = stderr.split('\n').filter(line => line.includes(': ') && !/ownloading/.test(line))
  return lines.find(line => line.startsWith('error')) ?? lines[0] ?? `exit code ${status}`
}

/**
 * Builds these sides, and returns the program of each, by its name. One that can't be built is left out: `leaveOut` is
 * called with its name and the reason.
 */
export function buildSisters(names, leaveOut) {
  const built = {}
  for (const name of names) {
    const { build, program } = languages[name]
    const result = run(build, { cwd: folderOf(name) })
    if (result.status === 0) built[name] = program
    else leaveOut(name, reasonOf(result, build[0]))
  }
  return built
}

/** The version of a side's SDK, and of what compiled it. */
export function versionOfSister(name) {
  const { version, toolchain } = languages[name]
  const [file, pattern] = version
  const [, sdk] = pattern.exec(readFileSync(join(folderOf(name), file), 'utf8'))
  return `${sdk}, ${run(toolchain).stdout.trim()}`
}
