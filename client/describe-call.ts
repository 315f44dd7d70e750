import type { ConnectionFacts } from './contract/status.js'

/** Identifies the connection that a stream call opens. */
export function connectionFacts({
  url,
  originID,
}: {
  readonly url: string
  readonly originID?: string
}): ConnectionFacts {
  const { protocol, host, pathname } = new URL(url)
  const [, prefix = ''] = /^(.*)\/api\/v1\/ws$/.exec(pathname) ?? []
  const base = `${protocol}//${host}${prefix}`
  return originID === undefined
    ? { host, origin: base }
    : { host, origin: `${base}#${originID}`, originID }
}

/**
 * Describes a call in one line without a secret: `GET /api/v1/feeds`. The query of a user's own
 * request may hold one, so it is left out.
 */
export function describeCall(call: {
  readonly method: string
  readonly url: string
  readonly operation?: string
}): string {
  const { pathname, search } = new URL(call.url)
  const isOwn = call.operation === 'request' && search !== ''
  const target = `${pathname}${isOwn ? '?…' : search}`
  return `${call.method} ${target.length > 160 ? `${target.slice(0, 157)}…` : target}`
}
