// The figures of the matrix as a Markdown table.
import { markdownTable } from '../../support/results.mjs'
import { always, holds, isMeasuredByLosses } from './bounds.mjs'

const seconds = ms => (ms === undefined ? '–' : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`)
const count = (many, what) => `${many} ${what}${many === 1 ? '' : 's'}`
const growth = mb => `${mb < 0 ? '' : '+'}${mb.toFixed(1)} MB`

/** How each figure is told. */
const words = {
  lost: (lost, { owed }) => `${lost} of ${owed} lost`,
  gaps: gaps => `${count(gaps, 'gap')} announced`,
  falseGaps: many => `${many} announced as missing but delivered`,
  doubled: doubled => `${doubled} delivered twice`,
  disordered: many => `${many} out of order`,
  foreign: many => `${many} altered or not subscribed`,
  detect: ms => `noticed in ${seconds(ms)}`,
  recover: ms => `back in ${seconds(ms)}`,
  backfill: ms => `complete ${seconds(ms)} later`,
  connect: ms => `connected in ${seconds(ms)}`,
  rejected: ms => `rejected in ${seconds(ms)}`,
  attempts: many => count(many, 'attempt'),
  reported: ms => `reported in ${seconds(ms)}`,
  latest: ms => `slowest delivery ${seconds(ms)}`,
  requests: many => count(many, 'request'),
  pages: many => count(many, 'page request'),
  pagesInTenSeconds: many => `${count(many, 'page request')} of a feed in ten seconds`,
  errors: many => count(many, 'error'),
  repeated: ms => (ms === 0 ? '' : `from at most ${seconds(ms)} before a kill`),
  inside: many => `${many} before \`Retry-After\` had passed`,
  accepted: many => `${many} accepted`,
  unrefused: many => `${many} not refused`,
  untyped: many => count(many, 'untyped error'),
  delivered: many => `${many} delivered`,
  outages: many => `${many} × \`disconnected\``,
  connections: many => `${count(many, 'connection')} open`,
  conflicts: many => `${count(many, 'conflict')}`,
  cursorsBehind: many => `cursors ${seconds(1000 * many)} behind`,
  behind: many => `${many} × \`behind\``,
  waiting: many => `${count(many, 'report')} waiting to be verified`,
  miscounted: many => `\`outOfOrder\` wrong by ${many}`,
  exitCode: code => (code === 0 ? '' : `exit code ${code}`),
  isNamed: yes => (yes ? 'the cause is named' : 'the cause is not named'),
  refusedAs: name => name,
  isAlive: () => '',
  unhandled: many => `${many} unhandled`,
  secrets: many => `a secret in ${count(many, 'error')}`,
  handles: many => `${count(many, 'handle')} left`,
  late: many => `${count(many, 'event')} after close`,
  closeMs: ms => `closed in ${seconds(ms)}`,
  mostSockets: many => `${count(many, 'socket')} at once`,
  mostRequestsPerSecond: many => `${many} requests in a second`,
  heapGrowthMB: mb => `heap ${growth(mb)}`,
  peakGrowthMB: mb => `memory at its peak ${growth(mb)}`,
}

/** The figures in a row's cell: losses, those with a bound, and every violation of a general bound. */
function namesOf(row, figures) {
  const { bound = {} } = row
  const times = figures.recover === undefined ? [] : ['recover']
  const own = Object.keys(bound).filter(name => name !== 'lost')
  const wrong = Object.keys(always).filter(
    name =>
      name !== 'lost' && !(name in bound) && name in figures && !holds(figures[name], always[name]),
  )
  return new Set([...(isMeasuredByLosses(row) ? ['lost'] : []), ...times, ...own, ...wrong])
}

function cell(row, outcome, absent) {
  if (outcome === undefined) return absent
  const { figures, says, broken } = outcome
  if (broken !== undefined) return `the row broke: ${broken.split('\n')[0]}`
  const named = [...namesOf(row, figures)]
    .filter(name => figures[name] !== undefined)
    .map(name => words[name]?.(figures[name], figures) ?? String(figures[name]))
  return [...named, ...says].filter(text => text !== '').join(', ')
}

const oneLine = text => text.replace(/[\n|]+/g, ' ').trim()

/** A row of the table: its number, its fault, and what came of it with each SDK. */
export function resultOf({ row, sluice, official }) {
  const absent = row.official === false ? 'has no such feature' : ''
  return {
    row: row.row,
    fault: oneLine(row.fault),
    sluice: oneLine(cell(row, sluice, '')),
    official: oneLine(cell(row, official, absent)),
  }
}

/** The table, and below it what it does not show. */
export function tableOf(outcomes, notShown) {
  const results = outcomes.map(resultOf)
  const cells = results.map(({ row, fault, sluice, official }) => [row, fault, sluice, official])
  const lines = [markdownTable(['row', 'fault', 'sluice', 'official SDK'], cells)]
  if (notShown.length > 0)
    lines.push(
      '',
      'The table does not show:',
      '',
      ...notShown.map(({ row, what }) => `- row ${row}, ${what}`),
    )
  return lines.join('\n')
}
