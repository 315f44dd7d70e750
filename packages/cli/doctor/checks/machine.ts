import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { VERSION } from 'sluice/client'
import { type Check, exitCodes, type Finding, failed, ok, warning } from '../check.js'
import type { Subject } from '../context.js'

/** Checks whether the package supports this version of Node.js. */
export const node: Check = {
  name: 'node',
  needs: [],
  exitCode: exitCodes.machine,
  async run({ subject: { nodeVersion, folder } }) {
    const range = readManifest(folder).engines?.node ?? '*'
    const facts = { node: nodeVersion, sluice: VERSION, wanted: range }
    if (satisfies(nodeVersion, range)) return [ok(`${nodeVersion}; sluice ${VERSION}`, facts)]
    return [
      failed(
        `${nodeVersion} is too old: sluice ${VERSION} needs Node ${range}`,
        'install a Node that is still maintained',
        facts,
      ),
    ]
  },
}

/** Names the context in use. It depends on nothing, and its file has been read already. */
export const context: Check = {
  name: 'context',
  needs: [],
  exitCode: exitCodes.machine,
  async run({ subject }) {
    const { name, path } = subject.context as NonNullable<Subject['context']>
    return [ok(`${name}, of ${path}`, { context: name })]
  },
}

/**
 * Lists the installed optional packages, and checks whether a package that these options need is
 * missing.
 */
export const packages: Check = {
  name: 'packages',
  needs: [],
  exitCode: exitCodes.machine,
  async run({ subject: { folder, network, log } }) {
    // The optional packages of the library and of the command.
    const ranges = Object.entries({
      ...readManifest(findPackage('sluice')).peerDependencies,
      ...readManifest(folder).peerDependencies,
    })
    const needed = new Map<string, string>()
    if (Object.keys(network).length > 0) needed.set('undici', '--proxy, --ca and --cert')
    if (log !== undefined)
      for (const name of ['transport-node', 'jetstream']) needed.set(`@nats-io/${name}`, '--nats')
    const found = ranges.map(([name, range]) => ({ name, range, at: findVersion(folder, name) }))
    const problems = found.flatMap(({ name, range, at }): readonly Finding[] => {
      const use = needed.get(name)
      if (at === undefined)
        return use === undefined
          ? []
          : [failed(`${name} is not installed, and needed by ${use}`, `npm install ${name}`)]
      if (satisfies(at, range)) return []
      const advice = `npm install ${name}@'${range}'`
      return [warning(`${name} ${at} is not one that sluice works with: ${range}`, advice)]
    })
    const installed = found.filter(({ at }) => at !== undefined)
    const absent = found.filter(({ at }) => at === undefined)
    const facts = Object.fromEntries(installed.map(({ name, at }) => [name, at]))
    const names = installed.map(({ name, at }) => `${name} ${at}`).join(', ') || 'none'
    const others = absent.map(({ name }) => name).join(', ')
    const text = `optional: ${names}${others && `; not installed: ${others}`}`
    return [...problems, ok(text, facts)]
  },
}

/** The members of a package.json that the checks read. */
interface Manifest {
  readonly name?: string
  readonly version?: string
  readonly engines?: { readonly node?: string }
  readonly peerDependencies?: Readonly<Record<string, string>>
}

/** Reads the package.json of a folder. */
function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as Manifest
}

/** The folder of one of our packages, resolved from this file. */
export function findPackage(name: string): string {
  return dirname(createRequire(import.meta.url).resolve(`${name}/package.json`))
}

/** The version of a package, resolved from `folder`; undefined if the package is not installed. */
function findVersion(folder: string, name: string): string | undefined {
  const places = createRequire(join(folder, 'package.json')).resolve.paths(name) ?? []
  const place = places.find(each => existsSync(join(each, name, 'package.json')))
  return place && readManifest(join(place, name)).version
}

type Version = readonly [major: number, minor: number, patch: number]

/**
 * True if a version is in a range. It reads only the forms that our packages use: `>=20.0.0`,
 * `^5.7.0 || ^6.0.0`, `*`.
 */
export function satisfies(version: string, range: string): boolean {
  const given = parse(version)
  return range.split('||').some(function holds(rule) {
    const text = rule.trim()
    if (text === '*') return true
    const wanted = parse(text)
    return !isBefore(given, wanted) && (!text.startsWith('^') || given[0] === wanted[0])
  })
}

function parse(text: string): Version {
  const [, major = 0, minor = 0, patch = 0] = /(\d+)(?:\.(\d+))?(?:\.(\d+))?/.exec(text) ?? []
  return [Number(major), Number(minor), Number(patch)]
}

function isBefore(one: Version, other: Version): boolean {
  const at = one.findIndex((part, index) => part !== other[index])
  return at >= 0 && (one[at] as number) < (other[at] as number)
}
