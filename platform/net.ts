// Node's functions for proxies and custom TLS. They are declared as values, not re-exported,
// because the build follows re-exports.
import crypto from 'node:crypto'
import events from 'node:events'
import http from 'node:http'
import net from 'node:net'
import tls from 'node:tls'

export const X509Certificate: typeof crypto.X509Certificate = crypto.X509Certificate
export const once: typeof events.once = events.once
export const startRequest: typeof http.request = http.request
export const connect: typeof net.connect = net.connect
export const isIP: typeof net.isIP = net.isIP
export const createSecureContext: typeof tls.createSecureContext = tls.createSecureContext
export const startTLS: typeof tls.connect = tls.connect

/** Loads undici. Resolves with the error if undici is not installed. */
export async function loadUndici(): Promise<typeof import('undici') | Error> {
  // Within a `try`, bundlers accept an import of a missing package.
  try {
    return await import('undici')
  } catch (thrown) {
    return thrown as Error
  }
}
