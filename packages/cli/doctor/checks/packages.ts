import { type Check, exitCodes, type Finding, failed, ok, warning } from '../check.js'
import type { Subject } from '../context.js'
import { findPackage, findVersion, readManifest } from '../manifest.js'
import { satisfies } from '../version-range.js'

/** Which of the optional packages are installed, and whether one is missing that these options need. */
export const packages: Check = {
  name: 'packages',
  needs: [],
  exitCode: exitCodes.machine,
  async run({ folder, network, log }) {
    // Those of the command, and those of the library, which it stands on.
    const ranges = Object.entries({
      ...readManifest(findPackage('sluice')).peerDependencies,
      ...readManifest(folder).peerDependencies,
    })
    const needed = neededBy({ network, log })
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

/** The options that need a package, by its name. */
function neededBy({ network, log }: Pick<Subject, 'network' | 'log'>): ReadonlyMap<string, string> {
  const needed = new Map<string, string>()
  if (Object.keys(network).length > 0) needed.set('undici', '--proxy, --ca and --cert')
  if (log === undefined) return needed
  for (const name of ['transport-node', 'jetstream']) needed.set(`@nats-io/${name}`, '--nats')
  return needed
}
