import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import type { Target } from 'sluice/internal'
import { type Check, exitCodes, type Finding, failed, ok } from '../check.js'
import { nameOf } from '../context.js'

const SHOWN = 4

/** Whether the names of the hosts lead to addresses. */
export const dns: Check = {
  name: 'dns',
  needs: ['proxy'],
  exitCode: exitCodes.service,
  async run({ targets, findProxy }) {
    return Promise.all(
      targets.map(async target => {
        if (isIP(target.host) !== 0) return ok(`${target.host} is an address`)
        if (findProxy(target)) return ok(`${nameOf(target)} is looked up by the proxy`)
        return lookUp(target)
      }),
    )
  },
}

async function lookUp({ host }: Target): Promise<Finding> {
  try {
    const found = await lookup(host, { all: true })
    const addresses = found.map(({ address }) => address)
    const more = addresses.length > SHOWN ? ` and ${addresses.length - SHOWN} more` : ''
    return ok(`${host} is at ${addresses.slice(0, SHOWN).join(', ')}${more}`)
  } catch (thrown) {
    const { code = 'no reason given' } = thrown as NodeJS.ErrnoException
    return failed(
      `${host} is not found: ${code}`,
      'check the host in REST_URL and WS_URL, and the DNS of this machine',
      { host, code },
    )
  }
}
