import { VERSION } from 'sluice/client'
import { type Check, exitCodes, failed, ok } from '../check.js'
import { readManifest } from '../manifest.js'
import { satisfies } from '../version-range.js'

/** Whether this Node is one that the package is for. */
export const node: Check = {
  name: 'node',
  needs: [],
  exitCode: exitCodes.machine,
  async run({ nodeVersion, folder }) {
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
