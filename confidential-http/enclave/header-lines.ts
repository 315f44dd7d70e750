import type { ConfidentialCall } from '../../plugins/confidential-http/call.js'

const BODYLESS: readonly string[] = ['GET', 'HEAD', 'DELETE', 'OPTIONS']

/**
 * The headers of a request: the lines of each, by its name as the caller first wrote it. What a layer sets takes the place
 * of lines of that name.
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

/** Node writes a header's characters as bytes; UTF-8 is what is meant by those beyond ASCII. */
function toBytes(value: string): string {
  return Buffer.from(value, 'utf8').toString('latin1')
}

/** Header lines as they came, under their canonical names, as UTF-8 where they are that. */
export function readHeaders(raw: readonly string[]): Map<string, readonly string[]> {
  const lines = new Map<string, string[]>()
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = canonical(raw[at] as string)
    const values = lines.get(name) ?? []
    values.push(fromBytes(raw[at + 1] as string))
    lines.set(name, values)
  }
  return lines
}

function fromBytes(value: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(value, 'latin1'))
  } catch {
    return value
  }
}

/** `content-TYPE` as `Content-Type`. */
function canonical(name: string): string {
  return name.toLowerCase().replace(/(?:^|-)[a-z]/g, start => start.toUpperCase())
}

/** True where the caller gave a header of this name, in lower case. */
export function hasHeader({ headers, multiHeaders }: ConfidentialCall, name: string): boolean {
  return headers.has(name) || [...multiHeaders.keys()].some(each => each.toLowerCase() === name)
}
