import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  AggregationTemporality,
  DataPointType,
  InMemoryMetricExporter,
  MeterProvider,
  PeriodicExportingMetricReader,
  type ResourceMetrics,
} from '@opentelemetry/sdk-metrics'
import type { Registry } from 'prom-client'
import { labelName, metrics, prometheusName } from '../../../plugins/telemetry/index.js'

/** Values by the names that Prometheus knows them by: `sluice_gaps_announced_total{sluice_gap_cause="backfill-limit"}`. */
export type Values = ReadonlyMap<string, number>

function keyOf(name: string, labels: Readonly<Record<string, unknown>>): string {
  const sorted = Object.entries(labels).sort(([one], [other]) => (one < other ? -1 : 1))
  return `${name}{${sorted.map(([label, value]) => `${label}="${value}"`).join(',')}}`
}

/** A real SDK that exports to memory when it is asked. */
export function startMeters(): {
  readonly provider: MeterProvider
  collect(): Promise<ResourceMetrics>
  close(): Promise<void>
} {
  const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
  const reader = new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 2 ** 30 })
  const provider = new MeterProvider({ readers: [reader] })
  return {
    provider,
    async collect() {
      exporter.reset()
      await reader.forceFlush()
      const [exported] = exporter.getMetrics()
      if (exported === undefined) throw new Error('nothing was exported')
      return exported
    },
    close: () => provider.shutdown(),
  }
}

/** What an SDK has exported; of histograms the counts and sums. */
export function exportedValues({ scopeMetrics }: ResourceMetrics): Values {
  const values = new Map<string, number>()
  for (const { dataPointType, descriptor, dataPoints } of scopeMetrics.flatMap(
    each => each.metrics,
  )) {
    const metric = metrics.find(({ name }) => name === descriptor.name)
    if (metric === undefined) throw new Error(`${descriptor.name} is not in the table`)
    const name = prometheusName(metric)
    for (const { attributes, value } of dataPoints) {
      const labels = Object.fromEntries(
        Object.entries(attributes).map(([attribute, each]) => [labelName(attribute), each]),
      )
      if (dataPointType === DataPointType.HISTOGRAM) {
        const { count, sum = Number.NaN } = value as { count: number; sum?: number }
        values.set(keyOf(`${name}_count`, labels), count)
        values.set(keyOf(`${name}_sum`, labels), sum)
      } else values.set(keyOf(name, labels), value as number)
    }
  }
  return values
}

/** Serves a registry as a program would, and reads the page once. */
export async function scrape(register: Registry): Promise<string> {
  const server = createServer(async (_request, response) => {
    response.setHeader('content-type', register.contentType)
    response.end(await register.metrics())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  try {
    const { port } = server.address() as AddressInfo
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`)
    return await answer.text()
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** What a page says; of histograms the counts and sums. */
export function scrapedValues(page: string): Values {
  const values = new Map<string, number>()
  for (const line of page.split('\n')) {
    const [, name = '', inner = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    if (value === undefined || name.endsWith('_bucket')) continue
    const labels = Array.from(inner.matchAll(/(\w+)="([^"]*)"/g), ([, label, each]) => [
      label,
      each,
    ])
    values.set(keyOf(name, Object.fromEntries(labels)), Number(value))
  }
  return values
}

/** The sum of a metric's values whose labels hold all of these texts. */
export function sumOf(values: Values, name: string, ...texts: readonly string[]): number {
  let sum = 0
  for (const [key, value] of values)
    if (key.startsWith(`${name}{`) && texts.every(text => key.includes(text))) sum += value
  return sum
}
