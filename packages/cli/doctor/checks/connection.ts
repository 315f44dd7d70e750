import type { Target } from 'sluice/internal'
import { networkReason } from 'sluice/internal'
import { type Check, exitCodes, type Finding, failed, ok } from '../check.js'
import { type Context, nameOf } from '../context.js'
import { namedProxy } from './proxy.js'

/** Whether the hosts can be reached. */
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
    const variable = namedProxy(context.env)
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
