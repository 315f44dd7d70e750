import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { labelName, type Metric, metrics, prometheusName } from '../../plugins/telemetry/index.js'
import { root } from '../support/sources.js'
import { codeOf, tableUnder } from '../support/tables.js'
import { pageOf } from './pages.js'

test('the table of metrics in docs/reference/telemetry.md is the one in the code', () => {
  const rows = tableUnder('Metrics', pageOf('docs/reference/telemetry.md').text)
  const documented = rows.map(row => ({
    name: codeOf(row, 'metric'),
    kind: row.kind,
    unit: codeOf(row, 'unit'),
    attributes: codeOf(row, 'attributes').split(', ').filter(Boolean),
    description: row.meaning,
  }))
  expect(documented).toEqual(metrics.map(({ bounds, ...metric }) => metric))
})

/** The metrics of services, as docs/operate/operations.md has them. */
const ofServices = tableUnder('Metrics', pageOf('docs/operate/operations.md').text).map(row => ({
  name: codeOf(row, 'metric'),
  kind: row.kind as 'counter' | 'gauge',
  unit: codeOf(row, 'unit'),
  attributes: codeOf(row, 'attributes').split(', ').filter(Boolean),
}))

interface Panel {
  readonly id: number
  readonly type: string
  readonly title: string
  readonly fieldConfig?: { readonly defaults: { readonly unit: string } }
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>
  readonly targets?: readonly {
    readonly expr: string
    readonly legendFormat: string
    readonly refId: string
  }[]
}

describe('the dashboard', () => {
  const dashboard = JSON.parse(
    readFileSync(join(root, 'examples/grafana-dashboard.json'), 'utf8'),
  ) as { panels: readonly Panel[]; templating: object }
  const { panels, templating } = dashboard
  const shown = panels.filter(({ type }) => type !== 'row')
  const targets = shown.flatMap(({ targets = [] }) => targets)

  /** The metrics of a query, with the suffixes of a histogram. */
  const namesIn = (text: string): string[] =>
    [...text.matchAll(/\b(sluice|http_client)_\w+(?=\{)/g)].map(([name]) => name)
  const series = new Map<string, Pick<Metric, 'kind' | 'attributes'>>(
    [...metrics, ...ofServices].flatMap(metric => {
      const name = prometheusName(metric)
      const suffixes = metric.kind === 'histogram' ? ['_bucket', '_count', '_sum'] : ['']
      return suffixes.map(suffix => [name + suffix, metric] as const)
    }),
  )

  test('asks for metrics of the table alone, by labels that they have', () => {
    expect(targets.length).toBeGreaterThan(20)
    for (const { expr, legendFormat } of targets) {
      const [name = ''] = namesIn(expr)
      const metric = series.get(name)
      expect([expr, metric]).not.toContain(undefined)
      const labels = metric?.attributes.map(labelName) ?? []
      const [, by = ''] = /\bby \(([^)]*)\)/.exec(expr) ?? []
      const named = [
        ...by.split(/,\s*/).filter(label => label !== '' && label !== 'le'),
        ...Array.from(legendFormat.matchAll(/\{\{(\w+)\}\}/g), ([, label = '']) => label),
      ]
      expect(labels).toEqual(expect.arrayContaining(named))
    }
    for (const name of namesIn(JSON.stringify(templating))) expect(series.has(name)).toBe(true)
  })

  test('shows every metric, but for those of feeds and what was verified', () => {
    const asked = new Set(
      targets.flatMap(({ expr }) => namesIn(expr)).map(name => series.get(name)),
    )
    const missing = metrics.filter(metric => !asked.has(metric)).map(({ name }) => name)
    expect(missing).toEqual([
      'sluice.reports.verified',
      'sluice.feed.reports',
      'sluice.feed.retirement',
    ])
  })

  test('takes rates of counters, and of nothing else', () => {
    for (const { expr } of targets) {
      const [name = ''] = namesIn(expr)
      const isCounted = ['counter', 'histogram'].includes(series.get(name)?.kind ?? '')
      expect([expr, /\b(rate|increase)\(/.test(expr)]).toEqual([expr, isCounted])
    }
  })

  test('has the fields that the documented JSON model asks for', () => {
    // https://grafana.com/docs/grafana/latest/dashboards/build-dashboards/view-dashboard-json-model/
    expect(dashboard).toMatchObject({
      title: expect.stringMatching(/./),
      uid: expect.stringMatching(/^[\w-]{1,40}$/),
      tags: expect.any(Array),
      schemaVersion: expect.any(Number),
      version: expect.any(Number),
      timezone: expect.stringMatching(/^(browser|utc|)$/),
      refresh: expect.stringMatching(/^\d+[smh]$/),
      time: { from: expect.stringMatching(/^now-/), to: 'now' },
      annotations: { list: expect.any(Array) },
    })
    const source = { type: 'prometheus', uid: '$'.concat('{datasource}') }
    for (const panel of shown) {
      expect(panel).toMatchObject({
        type: 'timeseries',
        title: expect.stringMatching(/./),
        datasource: source,
        fieldConfig: { defaults: { unit: expect.stringMatching(/./) }, overrides: [] },
      })
      const { targets = [] } = panel
      for (const target of targets) expect(target).toMatchObject({ datasource: source })
      const refs = targets.map(({ refId }) => refId)
      expect(refs.filter(ref => !/^[A-Z]+$/.test(ref))).toEqual([])
      expect(new Set(refs).size).toBe(refs.length)
    }
  })

  test('has its panels on a grid of 24 columns, none over another', () => {
    const taken = new Set<string>()
    for (const { title, gridPos } of panels) {
      const { x, y, w, h } = gridPos
      expect([title, x >= 0 && w > 0 && h > 0 && x + w <= 24]).toEqual([title, true])
      for (let row = y; row < y + h; row++)
        for (let column = x; column < x + w; column++) {
          const cell = `${column} ${row}`
          expect([title, taken.has(cell)]).toEqual([title, false])
          taken.add(cell)
        }
    }
  })

  test('has panels of their own ids', () => {
    const ids = panels.map(({ id }) => id)
    expect(new Set(ids).size).toBe(ids.length)
  })
})
