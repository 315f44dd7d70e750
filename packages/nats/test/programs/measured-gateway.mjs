// A gateway in a process of its own, which says how it fares: its event loop, its memory, its processor time.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { connect } from '@nats-io/transport-node'
import { createGateway } from '@sluice/nats/gateway'

const { servers, users, ...options } = JSON.parse(process.argv[2])
const delay = monitorEventLoopDelay({ resolution: 1 })
const milliseconds = nanoseconds => Math.round(nanoseconds / 1e4) / 100
let cpu = process.cpuUsage()
let most = 0
setInterval(() => {
  most = Math.max(most, process.memoryUsage.rss())
}, 100)
const gateway = await createGateway({
  connection: await connect({ servers }),
  ...options,
  // A token is its holder's name.
  ...(users && { authorize: async name => (name.startsWith('user-') ? { name } : undefined) }),
})
process.on('message', () => {
  delay.disable()
  const used = process.cpuUsage(cpu)
  process.send({
    p50: milliseconds(delay.percentile(50)),
    p99: milliseconds(delay.percentile(99)),
    max: milliseconds(delay.max),
    megabytes: Math.round(most / 1e6),
    cpu: (used.user + used.system) / 1e6,
    metrics: gateway.getMetrics(),
  })
  delay.reset()
  delay.enable()
  cpu = process.cpuUsage()
  most = 0
})
delay.enable()
process.send({ url: gateway.url, wsURL: gateway.wsURL })
process.on('disconnect', () => process.exit())
