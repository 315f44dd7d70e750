/** The SHA-256 of an empty body, which most requests have. */
export const NO_BODY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

/** The text that the signature of a request covers. */
export function textOf(
  method: string,
  url: string,
  bodyHash: string,
  apiKey: string,
  timestamp: number,
): string {
  const { pathname, search } = new URL(url)
  return `${method.toUpperCase()} ${pathname}${search} ${bodyHash} ${apiKey} ${timestamp}`
}

/** The headers of a signed request. */
export function headersOf(
  apiKey: string,
  timestamp: number,
  signature: string,
): Record<string, string> {
  return {
    Authorization: apiKey,
    'X-Authorization-Timestamp': String(timestamp),
    'X-Authorization-Signature-SHA256': signature,
  }
}
