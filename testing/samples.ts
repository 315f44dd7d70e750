import { isStreamsError, ValidationError } from '../core/errors.js'
import { checkOptions, kindOf, type OptionNames } from '../core/options.js'
import { parseFeedID } from '../report/feed-id.js'
import type { ReportJSON } from '../report/report.js'

/** A sample may be a report of the service or of a client. Its other fields are ignored. */
const names: OptionNames<ReportJSON> = {
  feedID: true,
  fullReport: true,
  validFromTimestamp: true,
  observationsTimestamp: true,
  origin: true,
  source: true,
  decoded: true,
}

/** Checks a list of reports. `read` reads what a test needs of each. */
export function checkSamples<Sample>(
  field: string,
  value: unknown,
  read: (name: string, feedID: string, fullReport: string, fields: unknown) => Sample,
  others: Readonly<Record<string, true>> = {},
): readonly Sample[] {
  if (!Array.isArray(value))
    throw new ValidationError(`${field} must be a list of reports, not ${kindOf(value)}`)
  if (value.length === 0) throw new ValidationError(`${field} must hold at least one report`)
  return value.map((each: Record<string, unknown>, index) => {
    const name = `${field}[${index}]`
    const { fullReport, ...given } = checkOptions(name, each, { ...names, ...others })
    const feedID = parseFeedID(given.feedID, `${name}.feedID`)
    if (typeof fullReport !== 'string')
      throw new ValidationError(`${name}.fullReport must be a string, not ${kindOf(fullReport)}`)
    try {
      return read(name, feedID, fullReport, given.fields)
    } catch (cause) {
      if (!isStreamsError(cause, 'DECODING')) throw cause
      throw new ValidationError(`${name}.fullReport must be a report: ${cause.message}`, { cause })
    }
  })
}
