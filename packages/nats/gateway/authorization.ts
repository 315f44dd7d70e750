import type { IncomingMessage } from 'node:http'
import { HTTPError } from 'sluice/internal'
import { digestOf, type TokenList } from './tokens.js'

/** The subprotocol that a gateway accepts, beside the one in which a page hands over its token. */
export const SUBPROTOCOL = 'sluice'
/** As pages hand tokens to Kubernetes: a browser sets no other header of a WebSocket. socket.web.ts has the other side. */
const TOKEN_PROTOCOL = 'base64url.bearer.sluice.'

/** Who sends a request, by its token. */
export interface Holder {
  readonly name: string
  readonly digest: Uint8Array
}

/** Finds the holder of a request's token. Throws HTTPError where it has none that is good. */
export function authorize(request: IncomingMessage, tokens: TokenList): Holder {
  const token = tokenOf(request)
  if (token === undefined)
    throw new HTTPError(401, 'a token is needed', undefined, { 'www-authenticate': 'Bearer' })
  const digest = digestOf(token)
  const name = tokens.holderOf(digest)
  if (name === undefined)
    throw new HTTPError(401, 'the token is unknown, or has expired', undefined, {
      'www-authenticate': 'Bearer error="invalid_token"',
    })
  return { name, digest }
}

function tokenOf({ headers }: IncomingMessage): string | undefined {
  const { authorization, 'sec-websocket-protocol': protocols = '' } = headers
  if (authorization !== undefined) return /^Bearer +(\S+)$/i.exec(authorization)?.[1]
  const protocol = protocols.split(',').find(each => each.trim().startsWith(TOKEN_PROTOCOL))
  if (protocol === undefined) return undefined
  return Buffer.from(protocol.trim().slice(TOKEN_PROTOCOL.length), 'base64url').toString()
}
