import { expect } from '@jest/globals'
import { type DataEngine, type DataEngineOptions, startDataEngine } from '@sluice/engine'
import { until } from '@sluice/test-support/waiting.js'
import { marketGuard } from 'sluice/plugins/market-guard'
import type { Section } from '../../../monitor/board.js'
import { type MeasuredClient, measurePreset } from '../../../monitor/measured-client.js'
import { monitorOf } from '../../../monitor/monitor.js'
import { follow } from './follow.js'

/** The id of ETH/USD, and one of a feed in milliseconds. */
export const eth = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
export const fine: string = `0x1003${'0'.repeat(60)}`

/** What is monitored, and what the monitor shows of it. */
export interface Monitored {
  readonly engine: DataEngine
  readonly stream: ReturnType<MeasuredClient['client']['createStream']>
  readonly reader: ReturnType<typeof follow>
  /** Waits until the latest row of a section has these values. */
  readonly shows: (section: Section, expected: object, index?: number) => Promise<void>
  /** What the monitor answers to a path. */
  readonly ask: (path: string) => Promise<{ readonly status: number; readonly body: unknown }>
}

/** An engine that publishes when the test says so, a stream of it, and its monitor. */
export async function startMonitored(
  closers: (() => unknown)[],
  options: DataEngineOptions = {},
  isVerified = false,
  hasMarket = false,
): Promise<Monitored> {
  const engine = await startDataEngine({
    feeds: [eth, fine],
    intervalMs: 0,
    history: 0,
    ...options,
  })
  closers.push(() => engine.close())
  const { apiKey, userSecret, endpoint, wsEndpoint, network } = engine
  const verify = isVerified ? { verify: { signers: network } } : {}
  const config = { apiKey, userSecret, endpoint, wsEndpoint, haMode: true, ...verify }
  const guard = marketGuard({ feeds: { [eth]: { maxAge: 3000 } } })
  const measured = measurePreset(config, hasMarket ? [guard] : [])
  closers.push(() => measured.client.close())
  const feeds = engine.feeds.map(feedID => ({ feedID, name: feedID === eth ? 'ETH/USD' : 'fine' }))
  const stream = measured.client.createStream([...engine.feeds])
  const source = { ...measured, feeds, name: 'test', wire: wsEndpoint }
  const monitor = await monitorOf(source, stream, { files: {} })
  closers.push(() => monitor.close())
  const reader = follow(Number(new URL(monitor.url).port))
  closers.push(reader.stop)
  /** Waits until the latest row of a section has these values. */
  async function shows(section: Section, expected: object, index?: number): Promise<void> {
    const matches = (): boolean => {
      const row = reader.latest(section, index)
      return row !== undefined && matchesRow(row, expected)
    }
    await until(matches).catch(() => undefined)
    expect(reader.latest(section, index)).toMatchObject(expected)
  }
  /** What the monitor answers to a path. */
  async function ask(path: string): Promise<{ readonly status: number; readonly body: unknown }> {
    const response = await fetch(new URL(path, monitor.url))
    const text = await response.text()
    return { status: response.status, body: response.ok ? JSON.parse(text) : text }
  }
  return { engine, stream, reader, shows, ask }
}

/** Whether a row has these values. */
function matchesRow(row: object, expected: object): boolean {
  try {
    expect(row).toMatchObject(expected)
    return true
  } catch {
    return false
  }
}
