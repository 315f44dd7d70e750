// Requests signed by hand, over node:http and ws alone.
import { createHash, createHmac } from 'node:crypto'
import { type IncomingHttpHeaders, request } from 'node:http'
import { type ClientOptions, WebSocket } from 'ws'
import type { DataEngine } from '../../index.js'

export interface Reply {
  status: number
  headers: IncomingHttpHeaders
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it as it likes
  json: any
}

export interface Changes {
  method?: string
  body?: string
  /** The clock of the request, in ms. */
  at?: number
  /** Headers to change; undefined leaves one out. */
  headers?: Record<string, string | undefined>
}

type Key = Pick<DataEngine, 'apiKey' | 'userSecret'>
type Endpoint = Pick<DataEngine, 'apiKey' | 'userSecret' | 'wsEndpoint'>

export function signedHeaders(
  key: Key,
  path: string,
  changes: Changes = {},
): Record<string, string> {
  const { method = 'GET', body = '', at = Date.now(), headers = {} } = changes
  const bodyHash = createHash('sha256').update(body).digest('hex')
  const signed = `${method} ${path} ${bodyHash} ${key.apiKey} ${at}`
  const all = {
    Authorization: key.apiKey,
    'X-Authorization-Timestamp': String(at),
    'X-Authorization-Signature-SHA256': createHmac('sha256', key.userSecret)
      .update(signed)
      .digest('hex'),
    ...headers,
  }
  return Object.fromEntries(
    Object.entries(all).filter(([, value]) => value !== undefined),
  ) as Record<string, string>
}

export function send(engine: DataEngine, path: string, changes: Changes = {}): Promise<Reply> {
  const { method = 'GET', body = '' } = changes
  return new Promise((resolve, reject) => {
    const { hostname, port } = new URL(engine.endpoint)
    const headers = {
      ...signedHeaders(engine, path, changes),
      ...(body === '' ? {} : { 'Content-Length': String(Buffer.byteLength(body)) }),
    }
    const outgoing = request({ hostname, port, path, method, headers, agent: false }, response => {
      let text = ''
      response.setEncoding('utf8')
      response.on('error', reject)
      response.on('data', chunk => {
        text += chunk
      })
      response.on('end', () => {
        const { statusCode = 0, headers } = response
        let json: unknown
        try {
          json = JSON.parse(text)
        } catch {}
        resolve({ status: statusCode, headers, text, json })
      })
    })
    outgoing.on('error', reject)
    outgoing.end(body)
  })
}

export interface Frame {
  isBinary: boolean
  text: string
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it as it likes
  json: any
}

export interface OpenStream {
  socket: WebSocket
  frames: Frame[]
  headers: IncomingHttpHeaders
  /** Waits until so many frames have come. */
  received(count: number): Promise<Frame[]>
  /** The error of the connection below, if it ends in one. */
  broken: Promise<NodeJS.ErrnoException>
  /** The close code. */
  closed: Promise<number>
}

export function openStream(
  engine: Endpoint,
  path: string,
  changes: Changes = {},
  options: ClientOptions = {},
): Promise<OpenStream> {
  const socket = new WebSocket(`${engine.wsEndpoint}${path}`, {
    ...options,
    headers: signedHeaders(engine, path, changes),
  })
  const frames: Frame[] = []
  const waiting = new Set<() => void>()
  socket.on('message', (data, isBinary) => {
    const text = data.toString()
    let json: unknown
    try {
      json = JSON.parse(text)
    } catch {}
    frames.push({ isBinary, text, json })
    for (const check of waiting) check()
  })
  const closed = new Promise<number>(resolve => socket.once('close', resolve))
  const broken = new Promise<NodeJS.ErrnoException>(resolve =>
    socket.once('upgrade', ({ socket }) => socket.once('error', resolve)),
  )
  const received = (count: number) =>
    new Promise<Frame[]>(resolve => {
      const check = () => {
        if (frames.length >= count) resolve(frames)
      }
      waiting.add(check)
      check()
    })
  return new Promise((resolve, reject) => {
    let headers: IncomingHttpHeaders = {}
    socket.on('upgrade', response => {
      headers = response.headers
    })
    socket.on('error', reject)
    socket.once('open', () => resolve({ socket, frames, headers, received, broken, closed }))
  })
}

/** The answer to an upgrade that is refused. */
export function refusedStream(
  engine: Endpoint,
  path: string,
  changes: Changes = {},
): Promise<Reply> {
  const socket = new WebSocket(`${engine.wsEndpoint}${path}`, {
    headers: signedHeaders(engine, path, changes),
  })
  return new Promise((resolve, reject) => {
    socket.once('open', () => {
      socket.terminate()
      reject(new Error('the upgrade was accepted'))
    })
    socket.on('error', reject)
    socket.once('unexpected-response', (_request, response) => {
      let text = ''
      response.on('data', chunk => {
        text += chunk
      })
      response.on('end', () => {
        let json: unknown
        try {
          json = JSON.parse(text)
        } catch {}
        resolve({ status: response.statusCode ?? 0, headers: response.headers, text, json })
      })
    })
  })
}

export { pause as sleep, until } from '@sluice/test-support/waiting.js'
