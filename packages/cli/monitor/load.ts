import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Load } from './messages.js'

/** Milliseconds between two looks at the clock, which is the least delay that is seen. */
const RESOLUTION = 10

/** Measures what this process costs. */
export interface LoadMeter {
  /** Since the last time it was read. */
  read(): Omit<Load, 'readers'>
  stop(): void
}

/** Starts to measure. */
export function measureLoad(): LoadMeter {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION })
  delay.enable()
  let cpu = process.cpuUsage()
  let since = performance.now()
  /** A timer is late by its resolution at least. */
  const toMs = (nanoseconds: number): number =>
    Number.isFinite(nanoseconds) ? Math.max(0, Math.round(nanoseconds / 1e6 - RESOLUTION)) : 0

  return {
    read() {
      const { user, system } = process.cpuUsage(cpu)
      const elapsed = performance.now() - since
      const load = {
        loopP99Ms: toMs(delay.percentile(99)),
        loopMaxMs: toMs(delay.max),
        cpu: Math.round(((user + system) / 1000 / elapsed) * 1000) / 1000,
        memoryBytes: process.memoryUsage.rss(),
      }
      delay.reset()
      cpu = process.cpuUsage()
      since = performance.now()
      return load
    },
    stop: () => void delay.disable(),
  }
}
