import { type ConfidentialCall, withBytes } from 'sluice/plugins/confidential-http'

const BODYLESS: readonly string[] = ['GET', 'HEAD', 'DELETE', 'OPTIONS']

/**
 * Builds the headers of a request: the lines of each header, by name. Each name keeps the spelling
 * that the caller used first. A header that a layer has set replaces all lines of the same name.
 */
export function writeHeaders(
  { method, url, headers, multiHeaders }: ConfidentialCall,
  bodyBytes: number | undefined,
): Map<string, string[]> {
  const isFramed = bodyBytes !== undefined || !BODYLESS.includes(method)
  const lines: readonly (readonly [string, string])[] = [
    ['host', new URL(url).host],
    ...[...multiHeaders]
      .filter(([name]) => !headers.has(name))
      .flatMap(([name, values]) => values.map(value => [name, toBytes(value)] as const)),
    ...headers,
    ...(isFramed ? [['content-length', String(bodyBytes ?? 0)] as const] : []),
  ]
  const byName = new Map<string, { readonly name: string; readonly values: string[] }>()
  for (const [name, value] of lines) {
    const header = byName.get(name.toLowerCase()) ?? { name, values: [] }
    header.values.push(value)
    byName.set(name.toLowerCase(), header)
  }
  return new Map([...byName.values()].map(({ name, values }) => [name, values]))
}

/**
 * Encodes a value as UTF-8, one character per byte, because Node writes each character of a header
 * as one byte.
 */
function toBytes(value: string): string {
  return isASCII(value) ? value : withBytes(value, bytes => bytes.toString('latin1'))
}

function isASCII(value: string): boolean {
  return Buffer.byteLength(value) === value.length
}

/** Groups raw header lines by their canonical names. Decodes values that are valid UTF-8. */
export function readHeaderLines(raw: readonly string[]): Map<string, readonly string[]> {
  const lines = new Map<string, string[]>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = canonicalName(raw[at] as string)
    const values = lines.get(name) ?? []
    values.push(fromBytes(raw[at + 1] as string))
    lines.set(name, values)
  }
  return lines
}

function fromBytes(value: string): string {
  if (isASCII(value)) return value
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}

/** Converts a name to its canonical form: `content-TYPE` becomes `Content-Type`. */
function canonicalName(name: string): string {
  return name.toLowerCase().replace(/(?:^|-)[a-z]/g, start => start.toUpperCase())
}

/** Tells whether the request has the header. `name` must be in lower case. */
export function hasHeader({ headers, multiHeaders }: ConfidentialCall, name: string): boolean {
  return headers.has(name) || [...multiHeaders.keys()].some(each => each.toLowerCase() === name)
}
