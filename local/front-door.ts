import type { IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Answer } from './answer.js'
import { type Handlers, host } from './listener.js'
import type { Origin } from './origin.js'
import type { Service } from './service.js'

/** The load balancer in front of the origins. */
export interface FrontDoor {
  readonly handlers: Handlers
  /** While on, upgrades that name a dead origin go to another one. */
  readonly reroute: (on: boolean) => void
}

// What a load balancer answers by itself is a page, not the service's JSON.
const badGateway: Answer = {
  status: 502,
  headers: { 'content-type': 'text/html' },
  body: '<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>',
}

/** A request's first line and headers, as they came. */
function headOf({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
  let head = `${method} ${url} HTTP/${httpVersion}\r\n`
  for (let i = 0; i < rawHeaders.length; i += 2)
    head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`
  return `${head}\r\n`
}

/** Ends a socket as another one has ended: a reset stays a reset. */
function endLike(socket: Socket, hadError: boolean): void {
  if (socket.destroyed) return
  if (hadError) socket.resetAndDestroy()
  else socket.destroy()
}

/** Pipes both ways. What ends on one side ends on the other, in the same manner. */
function join(one: Socket, other: Socket): void {
  for (const [from, to] of [
    [one, other],
    [other, one],
  ] as const) {
    from.pipe(to)
    from.once('close', function ended(hadError) {
      // What has come to its end properly has already ended the other side, behind the last bytes.
      if (hadError || !from.readableEnded) endLike(to, hadError)
    })
  }
}

/** The front door to some origins: REST is served by the service, streams by the origins. */
export function createFrontDoor(service: Service, origins: readonly Origin[]): FrontDoor {
  let isRerouting = false
  let turn = 0

  /** The origins that listen, on the list before those that aren't, in turn. */
  function anyLive(): Origin | undefined {
    const live = origins.filter(origin => origin.listener.isOpen)
    const listed = live.filter(origin => origin.isAdvertised)
    const among = listed.length > 0 ? listed : live
    return among[turn++ % among.length]
  }

  function choose(id: string | string[] | undefined): Origin | undefined {
    const named = origins.find(origin => origin.id === id)
    if (named === undefined) return anyLive()
    if (named.listener.isOpen) return named
    named.missed()
    return isRerouting ? anyLive() : undefined
  }

  function turnAway(request: IncomingMessage, socket: Duplex, id: string): void {
    service.turnAway(request, socket, badGateway, `${id} is dead`)
  }

  function handOver(request: IncomingMessage, client: Socket, head: Buffer, origin: Origin): void {
    const upstream = connect({
      host,
      port: origin.listener.port,
      allowHalfOpen: true,
      noDelay: true,
    })
    const leave = (): void => void upstream.destroy()
    function failed(): void {
      client.off('close', leave)
      origin.missed()
      turnAway(request, client, `origin ${origin.id}`)
    }
    client.once('close', leave)
    upstream.once('error', failed)
    upstream.once('connect', function connected() {
      client.off('close', leave)
      upstream.off('error', failed)
      upstream.on('error', () => {})
      upstream.write(headOf(request), 'latin1')
      upstream.write(head)
      join(client, upstream)
    })
  }

  function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const id = request.headers['x-cll-origin']
    const origin = choose(id)
    if (origin === undefined)
      turnAway(request, socket, id === undefined ? 'every origin' : `origin ${id}`)
    else if (socket instanceof Socket) handOver(request, socket, head, origin)
  }

  return {
    handlers: { ...service, upgrade },
    reroute(on) {
      isRerouting = on
    },
  }
}
