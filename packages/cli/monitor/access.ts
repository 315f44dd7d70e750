import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'

/** Who may ask the server. */
export interface Access {
  /** Whether a request was sent to a name that is this server's: a page elsewhere can have any other name lead here. */
  isOurs(request: IncomingMessage): boolean
  /** Whether it may have the data: not for a page of another origin, and with the token where there is one. */
  mayRead(request: IncomingMessage): 'yes' | 'other origin' | 'no token'
}

/** True for the names and addresses of this machine alone. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127(\.\d{1,3}){3}$/.test(host)
}

/** The checks of a server that listens on `host`. */
export function createAccess(host: string, token: string | undefined): Access {
  function isOurName(name: string): boolean {
    if (isLoopback(name)) return true
    // Nobody can have an address lead elsewhere.
    return !isLoopback(host) && (isIP(name) !== 0 || name === host.toLowerCase())
  }

  return {
    isOurs: ({ headers }) => isOurName(nameIn(`http://${headers.host}`)),
    mayRead({ headers }) {
      const { origin, authorization = '' } = headers
      const isSame = origin === undefined || hostIn(origin) === hostIn(`http://${headers.host}`)
      const site = headers['sec-fetch-site'] ?? 'none'
      if (!isSame || !['same-origin', 'none'].includes(String(site))) return 'other origin'
      if (token === undefined || isSameText(authorization, `Bearer ${token}`)) return 'yes'
      return 'no token'
    },
  }
}

/** The name or address in a URL, without brackets; empty where it is none. */
function nameIn(url: string): string {
  return parse(url)?.hostname.replace(/^\[|\]$/g, '') ?? ''
}

/** Host and port. A proxy that ends TLS passes on `Host`, so the scheme is not compared. */
function hostIn(url: string): string {
  return parse(url)?.host ?? ''
}

function parse(url: string): URL | undefined {
  try {
    return new URL(url)
  } catch {
    return undefined
  }
}

/** Compares texts in a time that does not depend on where they differ. */
function isSameText(one: string, other: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(one), digest(other))
}
