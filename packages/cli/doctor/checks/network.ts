import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { isStreamsError } from 'sluice/core'
import { networkReason, type ProxyServer, type Target } from 'sluice/internal'
import { type Check, exitCodes, type Finding, failed, ok } from '../check.js'
import { type Context, nameOf } from '../context.js'

/** Checks which proxies are used, and whether they connect to the service. */
export const proxy: Check = {
  name: 'proxy',
  needs: [],
  exitCode: exitCodes.service,
  async run(context, signal) {
    const { targets, findProxy } = context
    const used = targets.flatMap(target => {
      const found = findProxy(target)
      return found === undefined ? [] : [{ target, server: found }]
    })
    if (used.length > 0)
      return Promise.all(used.map(({ target, server }) => tunnel(context, target, server, signal)))
    const isNamed = namedProxy(context) !== undefined
    return [ok(isNamed ? 'none; --proxy env would use that of the environment' : 'none')]
  },
}

/** The variable of the environment that names a proxy. */
function namedProxy({ subject: { env } }: Context): string | undefined {
  return ['https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY'].find(name => env[name])
}

async function tunnel(
  context: Context,
  target: Target,
  { url }: ProxyServer,
  signal: AbortSignal,
): Promise<Finding> {
  try {
    const socket = await context.open(target, signal)
    socket.destroy()
    return ok(`${url} connects to ${nameOf(target)}`, { proxy: url })
  } catch (thrown) {
    if (!isStreamsError(thrown, 'PROXY')) throw thrown
    const { message, statusCode } = thrown
    return failed(message, proxyAdvice(statusCode, target), { proxy: url, statusCode })
  }
}

function proxyAdvice(status: number | undefined, target: Target): string {
  if (status === undefined) return 'check the URL of the proxy, and that it runs'
  if (status === 407)
    return 'set HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT in the environment, and give --proxy env'
  if (status >= 500) return `the proxy can’t reach ${nameOf(target)}: ask who runs it`
  return `have the proxy allow CONNECT to ${nameOf(target)}, or take its host into NO_PROXY`
}

/** How many addresses of a host a finding shows. */
const SHOWN = 4

/** Checks whether the names of the hosts resolve to addresses. */
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

/** Checks whether the hosts can be reached. */
export const connection: Check = {
  name: 'connection',
  needs: ['proxy', 'dns'],
  exitCode: exitCodes.service,
  run: (context, signal) =>
    Promise.all(context.targets.map(target => connect(context, target, signal))),
}

async function connect(context: Context, target: Target, signal: AbortSignal): Promise<Finding> {
  const name = nameOf(target)
  const startedAt = performance.now()
  try {
    const socket = await context.open(target, signal)
    socket.destroy()
    const connectMs = Math.round(performance.now() - startedAt)
    return ok(`${name} is connected in ${connectMs} ms`, { target: name, connectMs })
  } catch (thrown) {
    const variable = namedProxy(context)
    const isDirect = context.findProxy(target) === undefined
    return failed(
      `${name} can’t be reached: ${networkReason(thrown)}`,
      isDirect && variable !== undefined
        ? `${variable} names a proxy: give --proxy env`
        : 'check the port, and the firewalls on the way',
      { target: name },
    )
  }
}
