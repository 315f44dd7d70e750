// What Node has for connections through proxies and over TLS of one's own. (Values and not re-exports, which the build would
// follow past this file.)
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

/** Loads undici; resolves with the error where it is not installed. */
export async function loadUndici(): Promise<typeof import('undici') | Error> {
  // Bundlers let a package be absent that is imported within a `try`.
  try {
    return await import('undici')
  } catch (thrown) {
    return thrown as Error
  }
}
