// How busy this process was: the share of time it was not waiting, and its time on a processor, in percent.
import { performance } from 'node:perf_hooks'

export function startLoad() {
  const since = performance.now()
  const cpu = process.cpuUsage()
  const loop = performance.eventLoopUtilization()
  return function read() {
    const ms = performance.now() - since
    const { user, system } = process.cpuUsage(cpu)
    return {
      ms,
      cpuMs: (user + system) / 1000,
      cpu: (user + system) / 10 / ms,
      busy: 100 * performance.eventLoopUtilization(loop).utilization,
    }
  }
}
