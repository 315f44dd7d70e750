import type { IncomingMessage } from 'node:http'
import { connect, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { HTTPAnswer } from 'sluice/internal'
import type { EngineContext } from './context.js'
import { type Handlers, host } from './listener.js'
import type { Origin } from './origin.js'
import { Service } from './service.js'

/**
 * The answer for a dead origin. Like a real load balancer, the front door sends an HTML page and
 * not the service's JSON.
 */
const badGateway: HTTPAnswer = {
  status: 502,
  headers: { 'content-type': 'text/html' },
  body: '<html><head><title>502 Bad Gateway</title></head><body>502 Bad Gateway</body></html>',
}

/** The text of a request's first line and headers, to forward it to an origin. */
function headOf({ method, url, httpVersion, rawHeaders }: IncomingMessage): string {
  let head = `${method} ${url} HTTP/${httpVersion}\r\n`
  for (let i = 0; i < rawHeaders.length; i += 2)
    head += `${rawHeaders[i]}: ${rawHeaders[i + 1]}\r\n`
  return `${head}\r\n`
}

/**
 * Pipes bytes from one socket to another. If `from` is reset or closes early, `to` is closed in the
 * same way.
 */
function pipe(from: Socket, to: Socket): void {
  from.pipe(to)
  from.once('close', function onClose(hadError) {
    // After a proper end of `from`, the pipe itself ends `to`, behind the last bytes.
    if (to.destroyed || (!hadError && from.readableEnded)) return
    if (hadError) to.resetAndDestroy()
    else to.destroy()
  })
}

/**
 * The load balancer in front of the origins. It answers REST requests and forwards upgrades to the
 * origins.
 */
export class FrontDoor {
  readonly handlers: Handlers
  /** While true, upgrades that name a dead origin go to a live origin. */
  isRerouting = false
  readonly #origins: readonly Origin[]
  readonly #listedOrigins: ReadonlySet<string>
  readonly #keepAlive: boolean
  readonly #service: Service
  #upgrades = 0

  constructor(context: EngineContext, origins: readonly Origin[]) {
    this.#origins = origins
    this.#listedOrigins = context.listedOrigins
    this.#keepAlive = context.settings.keepAlive
    this.#service = new Service(context, context.faults)
    const { request, unreadable } = this.#service
    this.handlers = { request, unreadable, upgrade: (...upgrade) => this.#upgrade(...upgrade) }
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const id = request.headers['x-cll-origin']
    const origin = this.#choose(id)
    if (origin === undefined)
      this.#reject(request, socket, id === undefined ? 'every origin' : `origin ${id}`)
    else if (socket instanceof Socket) this.#forward(request, socket, head, origin)
  }

  #choose(id: string | string[] | undefined): Origin | undefined {
    const named = this.#origins.find(origin => origin.id === id)
    if (named === undefined) return this.#anyLive()
    if (named.listener.isOpen) return named
    named.upgrades++
    return this.isRerouting ? this.#anyLive() : undefined
  }

  /**
   * The next live origin, round robin. If any listed origin is live, only listed origins are used.
   */
  #anyLive(): Origin | undefined {
    const live = this.#origins.filter(origin => origin.listener.isOpen)
    const listed = live.filter(({ id }) => this.#listedOrigins.has(id))
    const candidates = listed.length > 0 ? listed : live
    return candidates[this.#upgrades++ % candidates.length]
  }

  #reject(request: IncomingMessage, socket: Duplex, name: string): void {
    this.#service.rejectUpgrade(request, socket, badGateway, `${name} is dead`)
  }

  #forward(request: IncomingMessage, client: Socket, head: Buffer, origin: Origin): void {
    const { port } = origin.listener
    const upstream = connect({ host, port, allowHalfOpen: true, noDelay: true })
    if (!this.#keepAlive) upstream.unref()
    const abort = (): void => void upstream.destroy()
    const onFailure = (): void => {
      client.off('close', abort)
      origin.upgrades++
      this.#reject(request, client, `origin ${origin.id}`)
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
}
