import { createHash } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { createGateway, type Gateway, type GatewayOptions } from '@sluice/nats/gateway'
import { WebSocket } from 'ws'
import { closers, type LogWorld } from './world.js'

/** A token, and how a gateway knows it. */
export const token = 'page-token-0123456789abcdef'
export const hashOf = (text: string): string => createHash('sha256').update(text).digest('hex')

/** Starts a gateway of a world's log. All ends with the test. */
export async function startGateway(
  world: LogWorld,
  options: Partial<GatewayOptions> = {},
): Promise<Gateway> {
  const gateway = await createGateway({
    connection: options.connection ?? (await world.connect()),
    tokens: { dashboard: { sha256: hashOf(token) } },
    ...options,
  })
  closers.push(() => gateway.close())
  return gateway
}

/** A stream of ws alone, and what it got. */
export interface RawStream {
  readonly socket: WebSocket
  readonly frames: Buffer[]
  /** Resolves with the code and the reason of the end. */
  readonly closed: Promise<string>
}

/** How a raw stream is opened. */
export interface RawOptions {
  readonly token?: string | undefined
  readonly origin?: string
}

/** Opens a stream as a page does: its token is a subprotocol. */
export async function openRaw(
  { wsURL }: Pick<Gateway, 'wsURL'>,
  feedIDs: readonly string[],
  { token: own = token, origin }: RawOptions = {},
): Promise<RawStream> {
  const protocols = ['sluice', `base64url.bearer.sluice.${Buffer.from(own).toString('base64url')}`]
  const socket = new WebSocket(`${wsURL}/api/v1/ws?feedIDs=${feedIDs}`, protocols, {
    ...(origin === undefined ? {} : { origin }),
  })
  const frames: Buffer[] = []
  socket.on('message', data => void frames.push(data as Buffer))
  socket.on('error', () => undefined)
  const closed = new Promise<string>(resolve =>
    socket.on('close', (code, reason) => resolve(`${code} ${reason}`)),
  )
  const refusal = await new Promise<IncomingMessage | undefined>(resolve => {
    socket.on('open', () => resolve(undefined))
    socket.on('unexpected-response', (_request, response) => resolve(response))
  })
  closers.push(() => socket.terminate())
  if (refusal === undefined) return { socket, frames, closed }
  let body = ''
  for await (const chunk of refusal) body += chunk
  throw new Error(`${refusal.statusCode} ${JSON.parse(body).message}`)
}

/** Sends a request with a token. */
export function request(
  { url }: Gateway,
  path: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  return fetch(`${url}${path}`, { headers: { authorization: `Bearer ${token}`, ...headers } })
}
