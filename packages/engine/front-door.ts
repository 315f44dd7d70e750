import type { IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Answer } from 'sluice/internal'
import type { EngineContext } from './context.js'
import { type Handlers, host } from './listener.js'
import type { Origin } from './origin.js'
import { createService } from './service.js'

/** The load balancer in front of the origins. */
export interface FrontDoor {
  readonly handlers: Handlers
  /** While on, upgrades that name a dead origin go to another one. */
  readonly reroute: (on: boolean) => void
}

// A load balancer answers with a page of its own, not with the service's JSON.
const badGateway: Answer = {
  status: 502,
  headers: { 'content-type': 'text/html' },
  body: '<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>',
}

/** The bytes of a request's first line and headers. */
function headOf({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
  let head = `${method} ${url} HTTP/${httpVersion}\r\n`
  for (let i = 0; i < rawHeaders.length; i += 2)
    head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`
  return `${head}\r\n`
}

/** Pipes one way. A reset or an early close of `from` closes `to` likewise. */
function pipe(from: Socket, to: Socket): void {
  from.pipe(to)
  from.once('close', function onClose(hadError) {
    // After a proper end, the pipe ends the other side behind the last bytes.
    if (to.destroyed || (!hadError && from.readableEnded)) return
    if (hadError) to.resetAndDestroy()
    else to.destroy()
  })
}

/** A front door, which answers REST and connects upgrades to the origins. */
export function createFrontDoor(context: EngineContext, origins: readonly Origin[]): FrontDoor {
  const { listedOrigins } = context
  const service = createService(context, context.faults)
  let isRerouting = false
  let upgrades = 0

  /** The next live origin, round robin; those on the list come before the others. */
  function anyLive(): Origin | undefined {
    const live = origins.filter(origin => origin.listener.isOpen)
    const listed = live.filter(({ handle }) => listedOrigins.has(handle.id))
    const candidates = listed.length > 0 ? listed : live
    return candidates[upgrades++ % candidates.length]
  }

  function choose(id: string | string[] | undefined): Origin | undefined {
    const named = origins.find(({ handle }) => handle.id === id)
    if (named === undefined) return anyLive()
    if (named.listener.isOpen) return named
    named.countUpgrade()
    return isRerouting ? anyLive() : undefined
  }

  function reject(request: IncomingMessage, socket: Duplex, name: string): void {
    service.rejectUpgrade(request, socket, badGateway, `${name} is dead`)
  }

  function forward(request: IncomingMessage, client: Socket, head: Buffer, origin: Origin): void {
    const { port } = origin.listener
    const upstream = connect({ host, port, allowHalfOpen: true, noDelay: true })
    const abort = (): void => void upstream.destroy()
    function onFailure(): void {
      client.off('close', abort)
      origin.countUpgrade()
      reject(request, client, `origin ${origin.handle.id}`)
    }
    client.once('close', abort)
    upstream.once('error', onFailure)
    upstream.once('connect', function onConnect() {
      client.off('close', abort)
      upstream.off('error', onFailure)
      upstream.on('error', () => {})
      upstream.write(headOf(request), 'latin1')
      upstream.write(head)
      pipe(client, upstream)
      pipe(upstream, client)
    })
  }

  return {
    handlers: {
      ...service,
      upgrade(request, socket, head) {
        const id = request.headers['x-cll-origin']
        const origin = choose(id)
        if (origin === undefined)
          reject(request, socket, id === undefined ? 'every origin' : `origin ${id}`)
        else if (socket instanceof Socket) forward(request, socket, head, origin)
      },
    },
    reroute(on) {
      isRerouting = on
    },
  }
}
