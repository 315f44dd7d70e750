import { ValidationError } from '../core/errors.js'
import type * as node from './net.js'

function missing(): never {
  throw new ValidationError(
    'proxy and tls are for Node: this platform opens connections its own way',
  )
}

export const X509Certificate: typeof node.X509Certificate = missing as never
export const once: typeof node.once = missing
export const startRequest: typeof node.startRequest = missing
export const connect: typeof node.connect = missing
export const isIP: typeof node.isIP = missing
export const createSecureContext: typeof node.createSecureContext = missing
export const startTLS: typeof node.startTLS = missing

export const loadUndici: typeof node.loadUndici = missing
