import { isStreamsError } from 'sluice/core'
import type { ProxyServer, Target } from 'sluice/internal'
import { type Check, exitCodes, type Finding, failed, ok } from '../check.js'
import { type Context, nameOf } from '../context.js'

/** Which proxies are in use, and whether they lead to the service. */
export const proxy: Check = {
  name: 'proxy',
  needs: [],
  exitCode: exitCodes.service,
  async run(context, signal) {
    const { targets, findProxy, env } = context
    const used = targets.flatMap(target => {
      const found = findProxy(target)
      return found === undefined ? [] : [{ target, server: found }]
    })
    if (used.length > 0)
      return Promise.all(used.map(({ target, server }) => tunnel(context, target, server, signal)))
    const isNamed = namedProxy(env) !== undefined
    return [ok(isNamed ? 'none; --proxy env would use that of the environment' : 'none')]
  },
}

/** The variable of the environment that names a proxy. */
export function namedProxy(env: Context['env']): string | undefined {
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
    return failed(message, adviceOf(statusCode, target), { proxy: url, statusCode })
  }
}

function adviceOf(status: number | undefined, target: Target): string {
  if (status === undefined) return 'check the URL of the proxy, and that it runs'
  if (status === 407)
    return 'set HTTPS_PROXY=http://NAME:PASSWORD@HOST:PORT in the environment, and give --proxy env'
  if (status >= 500) return `the proxy can’t reach ${nameOf(target)}: ask who runs it`
  return `have the proxy allow CONNECT to ${nameOf(target)}, or take its host into NO_PROXY`
}
