import { ValidationError } from '../core/errors.js'
import { checkText } from '../core/options.js'

/** Checks a URL. It must have one of the schemes, and no user name, password, query or fragment. */
export function checkURL(field: string, value: unknown, schemes: readonly string[]): string {
  const text = checkText(field, value)
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw new ValidationError(`${field} must be a URL`)
  }
  if (!schemes.includes(url.protocol)) {
    throw new ValidationError(
      `${field} must begin with ${schemes.map(scheme => `${scheme}//`).join(' or ')}, not ${url.protocol}`,
    )
  }
  if (url.username !== '' || url.password !== '')
    throw new ValidationError(`${field} must not hold a user name or password`)
  if (url.search !== '' || url.hash !== '')
    throw new ValidationError(`${field} must not have a query or a fragment`)
  return url.href.replace(/\/+$/, '')
}

/** Checks the URL of an Ethereum node. Its query may hold a key, so the query is not checked. */
export function checkNodeURL(field: string, value: string): string {
  const [base = '', query] = value.split('?')
  const url = checkURL(field, base, ['http:', 'https:'])
  return query === undefined ? url : `${url}?${query}`
}

/** Checks one URL, or several separated by commas. */
export function checkURLs(
  field: string,
  value: unknown,
  schemes: readonly string[],
): readonly string[] {
  const parts = checkText(field, value).split(',')
  const urls = parts.map((part, index) =>
    checkURL(parts.length === 1 ? field : `${field}[${index}]`, part.trim(), schemes),
  )
  return [...new Set(urls)]
}

/** The hosts of the URLs that lead to another machine without TLS. */
export function plainHosts(urls: readonly string[]): readonly string[] {
  const hosts = urls.map(text => new URL(text))
  const plain = hosts.filter(
    ({ protocol, hostname }) =>
      (protocol === 'http:' || protocol === 'ws:') &&
      !/^(localhost|.*\.localhost|127(\.\d+){3}|\[::1\])$/.test(hostname),
  )
  return [...new Set(plain.map(({ host }) => host))]
}
