// Finds out what was pasted or dropped: hexadecimal digits, JSON of the service, or a proof.

/** The longest text that is read, in characters. */
export const MAX_TEXT = 4_194_304
/** The most reports of one input. */
export const MAX_REPORTS = 200

/** A report as it was given, and what its envelope says of it. */
export interface GivenReport {
  readonly fullReport: string
  readonly feedID?: string
  readonly validFromTimestamp?: number
  readonly observationsTimestamp?: number
}

/** What the text is. */
export type Input =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'error'; readonly message: string }
  | { readonly kind: 'reports'; readonly reports: readonly GivenReport[]; readonly more: number }
  | { readonly kind: 'proof'; readonly text: string; readonly proof: Record<string, unknown> }

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const error = (message: string): Input => ({ kind: 'error', message })

/** Reads a text. */
export function readInput(given: string): Input {
  if (given.length > MAX_TEXT)
    return error(`The input has more than ${MAX_TEXT.toLocaleString('en')} characters.`)
  const text = given.replace(/^\uFEFF/, '').trim()
  if (text === '') return { kind: 'nothing' }
  if (!/^[[{"]/.test(text)) return readHex(text)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (thrown) {
    return error(`The input begins like JSON, but is not JSON: ${(thrown as Error).message}`)
  }
  if (isObject(value) && value.format === 'sluice-proof')
    return { kind: 'proof', text, proof: value }
  return readJSON(value)
}

function readHex(text: string): Input {
  const digits = text.replace(/\s+/g, '')
  const isHex = /^(0x|[0-9a-f]{8})/i.test(digits)
  if (!isHex)
    return error(
      'The input is neither hexadecimal digits nor JSON. A report begins with 0x and the config digest, such as 0x0009.',
    )
  const fullReport = /^0x/i.test(digits) ? `0x${digits.slice(2)}` : `0x${digits}`
  return { kind: 'reports', reports: [{ fullReport }], more: 0 }
}

/** The reports of a message: `{ fullReport }`, `{ report }`, `{ reports }`, a list or a text. */
function readJSON(value: unknown): Input {
  if (typeof value === 'string') return readHex(value)
  const list = Array.isArray(value)
    ? value
    : isObject(value) && Array.isArray(value.reports)
      ? value.reports
      : [isObject(value) && isObject(value.report) ? value.report : value]
  const reports: GivenReport[] = []
  for (const [index, each] of list.slice(0, MAX_REPORTS).entries()) {
    const fullReport = isObject(each) ? each.fullReport : each
    if (typeof fullReport !== 'string')
      return error(
        list.length > 1
          ? `Entry ${index + 1} of the JSON has no fullReport.`
          : 'The JSON has no fullReport, and is no proof.',
      )
    reports.push(isObject(each) ? envelopeOf(each, fullReport.trim()) : { fullReport })
  }
  if (reports.length === 0) return error('The list of reports is empty.')
  return { kind: 'reports', reports, more: Math.max(0, list.length - MAX_REPORTS) }
}

/** The fields of the envelope; a field of another form is left out. */
function envelopeOf(from: Record<string, unknown>, given: string): GivenReport {
  const { feedID, validFromTimestamp, observationsTimestamp } = from
  const fullReport = /^0x/i.test(given) ? `0x${given.slice(2)}` : `0x${given}`
  return {
    fullReport,
    ...(typeof feedID === 'string' && { feedID }),
    ...(typeof validFromTimestamp === 'number' && { validFromTimestamp }),
    ...(typeof observationsTimestamp === 'number' && { observationsTimestamp }),
  }
}

/** How the envelope and the signed bytes contradict each other, in sentences. */
export function contradictions(
  given: GivenReport,
  signedValue: (name: string) => string | undefined,
): readonly string[] {
  const { feedID, validFromTimestamp, observationsTimestamp } = given
  const said = { feedID: feedID?.toLowerCase(), validFromTimestamp, observationsTimestamp }
  return Object.entries(said).flatMap(([name, value]) => {
    const signed = signedValue(name)
    return value === undefined || signed === undefined || signed === '' || String(value) === signed
      ? []
      : [`The envelope’s ${name} is ${value}, and the signed one is ${signed}.`]
  })
}
