import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import { parse } from 'yaml'
import { labelName, metrics, prometheusName } from '../../plugins/telemetry/index.js'
import { root } from '../support/sources.js'
import { codeOf, type Row, tablesOf, tableUnder } from '../support/tables.js'
import { anchorsOf, pageOf } from './pages.js'

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

const read = (path: string): string => readFileSync(join(root, path), 'utf8')
const { groups } = parse(read('packages/cli/containers/alerts.yml')) as {
  readonly groups: readonly { readonly rules: readonly Alert[] }[]
}
const alerts = groups.flatMap(({ rules }) => rules)
const tests = parse(read('packages/cli/test/containers/alerts.test.yml')) as {
  readonly tests: readonly { readonly name: string }[]
}
const operations = pageOf('docs/operate/operations.md')
const runbook = pageOf('docs/operate/runbook.md')

const ofServices = tableUnder('Metrics', operations.text).map(row => ({
  name: codeOf(row, 'metric'),
  kind: row.kind as 'counter' | 'gauge',
  unit: codeOf(row, 'unit'),
  attributes: codeOf(row, 'attributes').split(', ').filter(Boolean),
}))
/** The labels of each metric of ours, and of Prometheus and the process. */
const series = new Map<string, readonly string[]>([
  ['up', []],
  ['process_start_time_seconds', []],
])
for (const metric of [...metrics, ...ofServices]) {
  const labels = metric.attributes.map(labelName)
  const name = prometheusName(metric)
  if (metric.kind === 'histogram') series.set(`${name}_bucket`, [...labels, 'le'])
  else series.set(name, labels)
}
/** The words of PromQL that the alerts use. */
const words = new Set(
  'and by changes histogram_quantile increase label_replace max offset or rate sum unless m'.split(
    ' ',
  ),
)

/** The metrics that an expression asks for, and the labels that it names. */
function namesIn(expr: string): { readonly metrics: string[]; readonly labels: string[] } {
  const labels: string[] = []
  const added = [...expr.matchAll(/label_replace\([^,]+, "(\w+)"/g)].map(([, name = '']) => name)
  const rest = expr
    .replace(/\b(?:by|on) \(([^)]*)\)/g, (_all, list: string) => {
      labels.push(...list.split(',').map(each => each.trim()))
      return ''
    })
    .replace(/\{([^}]*)\}/g, (_all, list: string) => {
      labels.push(...[...list.matchAll(/(\w+) *(?:=~|!=|!~|=)/g)].map(([, name = '']) => name))
      return ''
    })
    .replace(/"[^"]*"/g, '')
  const names = rest.match(/[a-z_]+/g) ?? []
  return {
    metrics: names.filter(name => !words.has(name)),
    labels: labels.filter(label => !added.includes(label)),
  }
}

describe('the alerts', () => {
  test('ask for metrics that there are, by labels that they have', () => {
    expect(alerts.length).toBeGreaterThan(15)
    for (const { alert, expr, annotations } of alerts) {
      const asked = namesIn(expr)
      expect([alert, asked.metrics]).not.toEqual([alert, []])
      for (const name of asked.metrics) expect([alert, name, series.has(name)]).toContain(true)
      const has = ['job', 'instance', ...asked.metrics.flatMap(name => series.get(name) ?? [])]
      const shown = [...JSON.stringify(annotations).matchAll(/\$labels\.(\w+)/g)]
      // `label_replace` may add a label.
      const added = [...expr.matchAll(/label_replace\([^,]+, "(\w+)"/g)].map(([, name]) => name)
      for (const label of asked.labels) expect([alert, label, has.includes(label)]).toContain(true)
      for (const [, label = ''] of shown)
        expect([alert, label, [...has, ...added].includes(label)]).toContain(true)
    }
  })

  test('say how bad it is, what is wrong with which values, and where to read on', () => {
    for (const { alert, labels, annotations } of alerts) {
      expect([alert, labels.severity]).toContainEqual(expect.stringMatching(/^(critical|warning)$/))
      expect([alert, Object.keys(annotations)]).toEqual([
        alert,
        ['summary', 'description', 'runbook_url'],
      ])
      expect(annotations.description).toMatch(/\{\{ \$labels\.instance \}\}.*\.$/)
    }
  })

  test('are each tested in time, and no other', () => {
    expect(tests.tests.map(({ name }) => name)).toEqual(alerts.map(({ alert }) => alert))
  })
})

describe('the runbook', () => {
  test('has a section for each alert, and no other, where the alert leads', () => {
    const sections = [...runbook.text.matchAll(/^## (Sluice\w+)$/gm)].map(([, name]) => name)
    expect(sections.sort()).toEqual(alerts.map(({ alert }) => alert).sort())
    const anchors = anchorsOf(runbook)
    for (const { alert, annotations } of alerts) {
      const [page, anchor = ''] = annotations.runbook_url?.split('#') ?? []
      expect(page).toMatch(/\/docs\/operate\/runbook\.md$/)
      expect([anchor, anchors.has(anchor)]).toEqual([alert.toLowerCase(), true])
    }
  })

  test('says in each section what it means, what to look at and what to do', () => {
    const sections = runbook.text.split(/^## /m).filter(text => text.startsWith('Sluice'))
    for (const text of sections)
      for (const part of ['**Meaning.** ', '**Look.** ', '**Do.** '])
        expect([text.split('\n')[0], text.includes(`\n${part}`)]).toContain(true)
  })

  /** The rows of a page's tables that have causes, each with its heading. */
  const causesOf = (text: string, column: string): { heading: string; row: Row }[] =>
    tablesOf(text).flatMap(({ heading, rows }) =>
      rows.filter(row => 'cause' in row && column in row).map(row => ({ heading, row })),
    )
  const known = causesOf(operations.text, 'severity')
  const told = causesOf(runbook.text, 'what to do')
  const names = (rows: typeof known): string[] =>
    rows.map(({ heading, row }) => `${heading}: ${row.cause}`)

  test('says of every cause what to do, and of no other', () => {
    expect(known.length).toBeGreaterThan(35)
    expect(names(told)).toEqual(names(known))
  })

  test('names the alert of each cause, which is as severe', () => {
    /** Alerts of causes that are a metric of every stream, too. */
    const byMetric: Readonly<Record<string, string>> = {
      'connection-lost': 'sluice_connections_open',
      'feeds-stale': 'sluice_feeds_stale',
      'verification-behind': 'sluice_verification_oldest_seconds',
      'cursors-unsaved': 'sluice_cursors_unsaved_seconds',
      'cursors-held-back': 'sluice_cursors_held_back_seconds',
      'dead-letters': 'sluice_messages_dead_total',
    }
    for (const [at, { row }] of told.entries()) {
      const cause = codeOf(row, 'cause')
      const asking = alerts.filter(({ expr }) => {
        const [, list = ''] = /sluice_cause=~?"([^"]+)"/.exec(expr) ?? []
        return list.split('|').includes(cause)
      })
      const metric = byMetric[cause]
      const found =
        metric === undefined ? asking : alerts.filter(({ expr }) => expr.includes(metric))
      expect([cause, asking.length]).toEqual([cause, metric === undefined ? 1 : 0])
      expect([cause, found.map(({ alert }) => alert)]).toEqual([cause, [codeOf(row, 'alert')]])
      const severity = known[at]?.row.severity === 'warning' ? 'warning' : 'critical'
      expect([cause, found[0]?.labels.severity]).toEqual([cause, severity])
    }
  })

  test('asks for metrics that there are', () => {
    const named = [...runbook.text.matchAll(/\bsluice_[a-z_]+\b/g)].map(([name]) => name)
    const labels = new Set([...series.values()].flat())
    const missing = named.filter(name => !series.has(name) && !labels.has(name))
    expect([...new Set(missing)]).toEqual([])
  })
})
