// The figures of the matrix as a Markdown table.
import { markdownTable } from '../../support/results.mjs'
import { always, holds, isMeasuredByLosses } from './bounds.mjs'

const seconds = ms => (ms === undefined ? '–' : `${(ms / 1000).toFixed(ms < 9950 ? 1 : 0)} s`)
const count = (many, what) => `${many} ${what}${many === 1 ? '' : 's'}`
const growth = mb => `${mb < 0 ? '' : '+'}${mb.toFixed(1)} MB`

/** How each figure is told. */
const words = {
  lost: (lost, { owed }) => `${lost} of ${owed} reports lost`,
  gaps: gaps => `${count(gaps, 'gap')} announced`,
  falseGaps: many => `${count(many, 'report')} announced as missing but delivered`,
  doubled: many => `${count(many, 'report')} delivered twice`,
  disordered: many => `${count(many, 'report')} out of order`,
  foreign: many => `${count(many, 'wrong report')} delivered`,
  detect: ms => `fault noticed after ${seconds(ms)}`,
  recover: ms => `new reports after ${seconds(ms)}`,
  backfill: ms => `missing reports complete ${seconds(ms)} later`,
  connect: ms => `connected after ${seconds(ms)}`,
  rejected: ms => `rejected after ${seconds(ms)}`,
  attempts: many => count(many, 'connection attempt'),
  reported: ms => `error or gap after ${seconds(ms)}`,
  latest: ms => `slowest delivery after ${seconds(ms)}`,
  requests: many => count(many, 'request'),
  pages: many => count(many, 'page request'),
  pagesInTenSeconds: many => `at most ${count(many, 'page request')} for one feed in ten seconds`,
  errors: many => count(many, 'error'),
  repeated: ms => (ms === 0 ? '' : `first delivered at most ${seconds(ms)} before a kill`),
  inside: many => `${count(many, 'request')} before \`Retry-After\` had passed`,
  accepted: many => `${count(many, 'bad answer')} accepted`,
  unrefused: many => `${count(many, 'invalid report')} without an error`,
  untyped: many => count(many, 'untyped error'),
  delivered: many => `${count(many, 'report')} delivered`,
  outages: many => count(many, '`disconnected` event'),
  connections: many => `${count(many, 'connection')} open`,
  conflicts: many => `${count(many, 'conflict')}`,
  cursorsBehind: many => `cursors ${seconds(1000 * many)} behind the reports`,
  behind: many => `${count(many, '`status` event')} of type \`behind\``,
  waiting: many => `${count(many, 'report')} waiting for verification`,
  miscounted: many => `metric \`outOfOrder\` wrong by ${many}`,
  origins: ids => `connected to ${ids.replaceAll(' ', ' and ')}`,
  exitCode: code => (code === 0 ? '' : `exit code ${code}`),
  isNamed: yes => (yes ? 'the cause is named' : 'the cause is not named'),
  refusedAs: name => `rejected with ${name}`,
  isAlive: () => '',
  unhandled: many => count(many, 'unhandled exception'),
  secrets: many => `a secret in ${count(many, 'error')}`,
  handles: many => `${count(many, 'handle')} left behind`,
  late: many => `${count(many, 'event')} after \`close\``,
  closeMs: ms => `\`close\` took ${seconds(ms)}`,
  mostSockets: many => `${count(many, 'socket')} open at once`,
  mostRequestsPerSecond: many => `${many} requests in a second`,
  heapGrowthMB: mb => `heap growth ${growth(mb)}`,
  peakGrowthMB: mb => `growth of peak memory ${growth(mb)}`,
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
  const absent = row.official === false ? 'does not have this feature' : ''
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
