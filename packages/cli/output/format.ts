import type { Feed } from 'sluice/client'
import { adviseName, ValidationError } from 'sluice/core'
import type { DecodedReport } from 'sluice/plugins/decoders'
import { getReportVersion } from 'sluice/report'
import { inGroup, type Values } from '../command.js'
import { factsOf } from '../input/feeds.js'
import { printable } from '../io.js'
import type { OutputFormat } from '../values.js'
import { dateTime, feedName } from './feeds.js'
import { explained, fieldsOf, isStatus, printFields, readable, shortPrice } from './prices.js'

const output = {
  output: {
    is: 'outputFormat',
    short: 'o',
    help: 'json, csv, table, lines, or template=TEXT with fields: template="{{name}} {{price}}"',
    excludes: ['json', 'csv'],
  },
  json: { help: 'short for -o json: an object a line; prices also as decimals', excludes: ['csv'] },
  csv: { help: 'short for -o csv, with a head' },
  raw: { help: 'print prices as the integers that are signed' },
  decimals: {
    is: 'whole',
    help: 'the decimals of feeds of which they are not known (default: 18)',
    max: 255,
  },
} as const
/** The options of the commands that print reports. */
export const formatOptions: typeof output = inGroup('Output', output)
export type FormatOptions = Values<typeof formatOptions>

/** The format that the options name; undefined for that of the command and its output. */
export function formatNameOf({ output, json, csv }: FormatOptions): OutputFormat | undefined {
  return output ?? (json ? { name: 'json' } : csv ? { name: 'csv' } : undefined)
}

/** The parts of a report that a command prints. */
export interface PrintedReport {
  readonly feedID: string
  readonly fullReport: string
  readonly validFromTimestamp: number
  readonly observationsTimestamp: number
  /** Throws if the report can't be decoded. */
  readonly decoded: DecodedReport
}

/** Writes reports as text. */
export interface Format {
  /** The text before the first report, with its line break. Only CSV has a head. */
  readonly head: string
  /** The text between two blocks. */
  readonly separator: string
  /** Formats a report as one line, without a line break. */
  line(report: PrintedReport): string
  /** Formats a report with one field per line. JSON and CSV give the same result as `line`. */
  block(report: PrintedReport): string
  /**
   * The first fields of a report by name, the price first, for the columns of a table. Undefined if
   * the report can't be decoded.
   */
  summarize(report: PrintedReport): Summary | undefined
}

/** The name and the text of fields, the price first. */
export type Summary = readonly (readonly [name: string, text: string])[]

/** The decimals of most feeds, which also apply to feeds whose decimals are unknown. */
export const USUAL_DECIMALS = 18

/** A field that no report has, and its text for a feed. */
export interface AddedField {
  readonly name: string
  readonly textOf: (feedID: string) => string
}

/**
 * Makes the format that the options name. CSV gets the columns of these feeds. `added` is one more
 * field, which templates do not have.
 */
export function createFormat(
  options: FormatOptions,
  feeds: readonly Feed[] = [],
  added?: AddedField,
): Format {
  const { raw } = options
  const chosen = formatNameOf(options)
  const known = new Map(feeds.map(feed => [feed.feedID, feed]))
  const factOf = (feedID: string): Feed => known.get(feedID) ?? factsOf(feedID)
  const decimals = (feedID: string): number | undefined =>
    raw === true ? undefined : decimalsOf(factOf(feedID), options)
  function summarize(report: PrintedReport): Summary | undefined {
    try {
      const summary = summaryOf(report.decoded, decimals(report.feedID))
      return added === undefined ? summary : [...summary, [added.name, added.textOf(report.feedID)]]
    } catch {
      return undefined
    }
  }
  const feedIDs = [...known.keys()]
  switch (chosen?.name) {
    case 'json':
      return { ...addToLines(jsonFormat(decimals), added, addToObject), summarize }
    case 'csv':
      return { ...addToLines(csvFormat(feedIDs, factOf, decimals), added, addToRow), summarize }
    case 'template':
      return { ...templateFormat(chosen.text, feedIDs, factOf, decimals), summarize }
    case 'table':
      return { ...tableFormat(factOf, summarize), summarize }
    default: {
      const format = textFormat(factOf, decimals, summarize)
      return { ...format, ...(chosen && { block: format.line, separator: '' }), summarize }
    }
  }
}

/** The decimals of a feed: the known number, or else the value of `--decimals`, or else 18. */
export function decimalsOf({ decimals }: Feed, options: FormatOptions): number {
  return decimals ?? options.decimals ?? USUAL_DECIMALS
}

type DecimalsOf = (feedID: string) => number | undefined
type Lines = Omit<Format, 'summarize'>

const addToObject = (line: string, { name }: AddedField, text: string): string =>
  `${line.slice(0, -1)},${JSON.stringify(name)}:${JSON.stringify(text)}}`
const addToRow = (line: string, _field: AddedField, text: string): string =>
  `${line},${csvRow([text])}`

/** Adds a field to the end of each line, and to the head of CSV. */
function addToLines(
  lines: Lines,
  field: AddedField | undefined,
  add: (line: string, field: AddedField, text: string) => string,
): Lines {
  if (field === undefined) return lines
  const line = (report: PrintedReport): string =>
    add(lines.line(report), field, field.textOf(report.feedID))
  const head = lines.head === '' ? '' : `${lines.head.trimEnd()},${field.name}\n`
  return { ...lines, head, line, block: line }
}

function jsonFormat(decimalsOf: DecimalsOf): Lines {
  function line(report: PrintedReport): string {
    const decimals = decimalsOf(report.feedID)
    const fields = decimals === undefined ? undefined : fieldsIn(report, decimals)
    if (fields === undefined) return JSON.stringify(report)
    const { prices } = fieldsOf(report.feedID)
    const priced = Object.entries(fields).filter(([name]) => prices.has(name))
    return `${JSON.stringify(report).slice(0, -1)},"prices":${JSON.stringify(Object.fromEntries(priced))}}`
  }
  return { head: '', separator: '', line, block: line }
}

const HEAD = ['feedID', 'name', 'validFromTimestamp', 'observationsTimestamp'] as const

function csvFormat(
  feedIDs: readonly string[],
  factOf: (feedID: string) => Feed,
  decimalsOf: DecimalsOf,
): Lines {
  const names = [...new Set(feedIDs.flatMap(feedID => fieldsOf(feedID).names))]
  function line(report: PrintedReport): string {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    const fields = fieldsIn(report, decimalsOf(feedID)) ?? {}
    if (Object.keys(fields).some(each => !names.includes(each)))
      throw new ValidationError(
        `--csv has the columns of the first report: one of ${getReportVersion(feedID)} has others, --json has all`,
      )
    const { name = '' } = factOf(feedID)
    return csvRow([
      ...[feedID, name, validFromTimestamp, observationsTimestamp],
      ...names.map(each => fields[each] ?? ''),
      fullReport,
    ])
  }
  return {
    head: `${csvRow([...HEAD, ...names, 'fullReport'])}\n`,
    separator: '',
    line,
    block: line,
  }
}

/** Formats a row of CSV as in RFC 4180, without its line break. */
function csvRow(values: readonly (string | number)[]): string {
  return values
    .map(value => {
      const text = String(value)
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
    })
    .join(',')
}

/** A field in a template. */
const PLACE = /\{\{([^{}]*)\}\}/g
/** The fields that every report has for a template. `time` is that of the observations, in UTC. */
const COMMON = [
  ...HEAD,
  'version',
  'time',
  'nativeFee',
  'linkFee',
  'expiresAt',
  'fullReport',
] as const

/** Puts the fields of a report into a text. A field that only other versions have is empty. */
function templateFormat(
  template: string,
  feedIDs: readonly string[],
  factOf: (feedID: string) => Feed,
  decimalsOf: DecimalsOf,
): Lines {
  const known = [...new Set([...COMMON, ...feedIDs.flatMap(feedID => fieldsOf(feedID).names)])]
  const places = [...template.matchAll(PLACE)]
  if (places.length === 0)
    throw new ValidationError('the template must have a field, such as {{price}}')
  for (const [place, name = ''] of places)
    if (!known.includes(name.trim()))
      throw new ValidationError(
        `the template has an unknown field ${place}; ${adviseName(name.trim(), known)}`,
      )
  function line(report: PrintedReport): string {
    const { feedID, observationsTimestamp } = report
    const fields: Readonly<Record<string, unknown>> = {
      ...(hasDecoder(report) ? report.decoded : undefined),
      ...fieldsIn(report, decimalsOf(feedID)),
      ...{ feedID, name: feedName(factOf(feedID)), fullReport: report.fullReport },
      ...{ validFromTimestamp: report.validFromTimestamp, observationsTimestamp },
      time: dateTime(feedID, observationsTimestamp),
    }
    return template.replace(PLACE, (_, name: string) => String(fields[name.trim()] ?? ''))
  }
  return { head: '', separator: '', line, block: line }
}

/** Whether a decoder reads the report. */
function hasDecoder(report: PrintedReport): boolean {
  return fieldsIn(report, undefined) !== undefined
}

/** A row a report, and a head before the first. The widths are those of the rows so far. */
function tableFormat(factOf: (feedID: string) => Feed, summarize: Format['summarize']): Lines {
  let widths: readonly number[] = []
  let titles: readonly string[] = []
  function line(report: PrintedReport): string {
    const { feedID, observationsTimestamp } = report
    const cells = [
      ['feed', feedName(factOf(feedID))],
      ['time', dateTime(feedID, observationsTimestamp)],
      ...(summarize(report) ?? [['price', 'no decoder']]),
    ] as const
    const own = cells.map(([title]) => title)
    widths = cells.map(([title, text], at) => Math.max(widths[at] ?? 0, title.length, text.length))
    const rowOf = (texts: readonly string[]): string =>
      texts
        .map((text, at) => (at < 2 ? text.padEnd(widths[at] ?? 0) : text.padStart(widths[at] ?? 0)))
        .join('  ')
    const row = rowOf(cells.map(([, text]) => text))
    // The fields of another version have another head.
    if (own.join() === titles.join()) return row
    titles = own
    return `${rowOf(own)}\n${row}`
  }
  return { head: '', separator: '', line, block: line }
}

function textFormat(
  factOf: (feedID: string) => Feed,
  decimalsOf: DecimalsOf,
  summarize: Format['summarize'],
): Lines {
  function line(report: PrintedReport): string {
    const { feedID, observationsTimestamp } = report
    const name = feedName(factOf(feedID)).padEnd(15)
    const time = dateTime(feedID, observationsTimestamp)
    const summary = summarize(report)
    if (summary === undefined) return `${name}  ?    ${time}  (no decoder)`
    const fields = summary.map(([field, text]) => `${field} ${text}`).join('  ')
    return `${name}  ${report.decoded.version.padEnd(3)}  ${time}  ${fields}`
  }
  function block({ decoded }: PrintedReport): string {
    const { feedID } = decoded
    const { name } = factOf(feedID)
    const fields = { ...decoded, ...printFields(decoded, decimalsOf(feedID)) }
    const width = Math.max(...Object.keys(fields).map(field => field.length))
    return Object.entries(fields)
      .map(([field, value]) => {
        const isNamed = field === 'feedID' && name !== undefined
        const text = isNamed ? `${feedID} (${printable(name)})` : explained(feedID, field, value)
        return `${field.padEnd(width)}  ${text}`
      })
      .join('\n')
  }
  return { head: '', separator: '\n', line, block }
}

/** The fields of a report; undefined if the report can't be decoded. */
export function fieldsIn(
  report: PrintedReport,
  decimals: number | undefined,
): Readonly<Record<string, string>> | undefined {
  try {
    return printFields(report.decoded, decimals)
  } catch {
    return undefined
  }
}

/** The most fields in a summary, without the status. */
const MOST_FIELDS = 4

/**
 * The names of the first fields of a feed's reports, the prices before the others. A status is
 * always among them, because it says whether the prices count.
 */
function summaryNames(feedID: string): readonly string[] {
  const { names, prices } = fieldsOf(feedID)
  const sorted = [
    ...names.filter(name => prices.has(name)),
    ...names.filter(name => !prices.has(name)),
  ]
  return sorted.filter((name, at) => at < MOST_FIELDS || isStatus(feedID, name))
}

function summaryOf(decoded: DecodedReport, decimals: number | undefined): Summary {
  const { feedID } = decoded
  const { prices } = fieldsOf(feedID)
  const values = decoded as unknown as Readonly<Record<string, bigint | number>>
  return summaryNames(feedID).map(name => {
    const value = values[name] as bigint
    const isScaled = decimals !== undefined && prices.has(name)
    return [name, isScaled ? shortPrice(value, decimals) : readable(feedID, name, value)]
  })
}
