// Reads messages from the bytes of a socket before ws gets them. ws takes as long for a frame as
// all the rest of the client. The code in `client/fast/` decides whether a connection uses this.
import net from 'node:net'
import { Duplex } from 'node:stream'
import tls from 'node:tls'
import { setImmediate } from '../globals.js'

const NONE: Buffer = Buffer.alloc(0)

type Take = (bytes: Uint8Array) => void

/**
 * A stream between a socket and ws. ws reads the answer to the upgrade from this stream, and later
 * all frames except messages in plain frames. Those messages are read from the socket's buffer
 * without a copy.
 */
export class FastSocket extends Duplex {
  readonly #maxMessageBytes: number
  #socket: net.Socket | undefined
  #take: Take = createAnswerReader(
    bytes => this.#handOver(bytes),
    rest => {
      this.#take = this.#hold
      this.#held = rest
    },
  )
  /** The bytes after the answer, held until ws has accepted the answer. */
  #held = NONE
  readonly #hold: Take = bytes => {
    this.#held = Buffer.concat([this.#held, bytes])
  }
  /** Ends the stream. Set if the connection has ended while bytes are held. */
  #ending: (() => void) | undefined
  #isPaused = false
  /** The stream's buffer is full: ws must read first. */
  #isFull = false

  constructor(maxMessageBytes: number) {
    super({ allowHalfOpen: false })
    this.#maxMessageBytes = maxMessageBytes
  }

  /** Writes to the socket, and reads the data that it emits. */
  carry(socket: net.Socket): void {
    this.#socket = socket
    socket.setNoDelay()
    socket.on('data', (data: Buffer) => this.receive(data.length, data))
    socket.on('error', error => this.#endBy(() => this.destroy(error)))
    socket.on('end', () => this.#endBy(() => this.push(null)))
    socket.on('close', () => {
      if (!socket.readableEnded) this.#endBy(() => this.destroy())
    })
    this.#flow()
  }

  /** Reads the first `bytes` bytes of a buffer. The buffer may change after the call returns. */
  receive(bytes: number, buffer: Uint8Array): void {
    if (!this.destroyed) this.#take(buffer.subarray(0, bytes))
  }

  /**
   * Gives messages in plain frames to `message` from now on. Called when ws has accepted the
   * upgrade.
   */
  readMessages(message: Take): void {
    const isBehind = (): boolean => this.readableLength > 0
    const other: Take = bytes => this.#handOver(bytes)
    this.#continueWith(createFrameReader(this.#maxMessageBytes, { message, other, isBehind }))
  }

  /** Gives ws all bytes from now on. */
  handOverAll(): void {
    const handOver: Take = bytes => this.#handOver(bytes)
    if (this.#take === this.#hold) this.#continueWith(handOver)
    else this.#take = handOver
  }

  /** Stops reading from the socket, or resumes reading. */
  setPaused(isPaused: boolean): void {
    this.#isPaused = isPaused
    this.#flow()
  }

  override _read(): void {
    this.#isFull = false
    this.#flow()
  }

  override _writev(chunks: { chunk: unknown }[], done: (error?: Error | null) => void): void {
    this.#socket?.cork()
    for (const [index, { chunk }] of chunks.entries())
      this.#socket?.write(chunk as Uint8Array, index === chunks.length - 1 ? done : undefined)
    this.#socket?.uncork()
  }

  override _final(done: () => void): void {
    if (this.#socket?.destroyed === false) this.#socket.end(() => done())
    else done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket?.destroy()
    done(error)
  }

  #flow(): void {
    if (this.#isPaused || this.#isFull) this.#socket?.pause()
    else this.#socket?.resume()
  }

  /** Gives ws a copy of the bytes, because ws may read them later. */
  #handOver(bytes: Uint8Array): void {
    if (this.push(Buffer.from(bytes)) || this.#isFull) return
    this.#isFull = true
    this.#flow()
  }

  /** Reads the held bytes once the listeners know that the connection is open. */
  #continueWith(take: Take): void {
    setImmediate(() => {
      this.#take = take
      const first = this.#held
      this.#held = NONE
      if (first.length > 0) this.receive(first.length, first)
      this.#ending?.()
    })
  }

  /** Ends the stream, once the held bytes are read. */
  #endBy(end: () => void): void {
    if (this.#take === this.#hold) this.#ending ??= end
    else end()
  }
}

/** How a connection is opened. */
export interface Opening {
  readonly isSecure: boolean
  /** The stream between the socket and ws, if there is one. */
  readonly fast: FastSocket | undefined
  /** Opens the socket. If it is undefined, the socket is opened in the same way as by ws. */
  readonly openSocket: ((signal: AbortSignal) => Promise<unknown>) | undefined
  /** Aborts when nobody wants the connection any more. */
  readonly signal: AbortSignal
}

type Options = net.TcpNetConnectOpts & tls.ConnectionOptions
type Opened = (error: unknown, stream?: Duplex) => void

/**
 * The size of a socket's buffer. All reads of a socket use the same buffer, because a new buffer
 * for each read would be most of the garbage.
 */
const READ_BYTES = 65_536

/**
 * Returns the option `createConnection` of ws. node:http calls this function, which returns a
 * stream, or calls back with a stream.
 */
export function connectionsOf(opening: Opening): typeof net.createConnection | undefined {
  const { isSecure, fast, openSocket, signal } = opening
  if (fast === undefined && openSocket === undefined) return undefined

  function createConnection(options: Options, opened: Opened): Duplex | undefined {
    if (openSocket !== undefined) {
      openSocket(signal)
        .then(socket => {
          fast?.carry(socket as net.Socket)
          opened(null, fast ?? (socket as net.Socket))
        })
        .catch(opened)
      return undefined
    }
    fast?.carry(connect(options, isSecure, fast))
    return fast
  }
  return createConnection as unknown as typeof net.createConnection
}

/** Connects in the same way as ws, but reads into one buffer. */
function connect(options: Options, isSecure: boolean, fast: FastSocket): net.Socket {
  const onread: net.OnReadOpts = {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback(bytes, buffer) {
      fast.receive(bytes, buffer)
      return true
    },
  }
  // `path` is the path of the request. Here it would mean the path of a local socket.
  const target = { ...options, path: undefined, onread }
  if (!isSecure) return net.connect(target as net.NetConnectOpts)
  const { host = '', servername = net.isIP(host) === 0 ? host : '' } = options
  return tls.connect({ ...target, servername } as tls.ConnectionOptions)
}

const [CR, LF] = [13, 10] as const
const END_OF_HEAD = [CR, LF, CR, LF] as const
const UPGRADED = 'HTTP/1.1 101'
const INTERIM = 'HTTP/1.1 1'

/**
 * Makes a reader of the answer to an upgrade. It hands over the bytes as they arrive. After the
 * head of an answer 101 it calls `upgraded` with the bytes that follow. After the head of any other
 * final answer it hands over all further bytes.
 */
function createAnswerReader(
  handOver: (bytes: Uint8Array) => void,
  upgraded: (rest: Buffer) => void,
): (bytes: Uint8Array) => void {
  /** The first characters of the current head. */
  let status = ''
  /** How many of the last bytes match the start of `END_OF_HEAD`. */
  let ending = 0
  let isFinal = false

  /** The index after the head of an answer 101, or -1. */
  function findUpgrade(chunk: Uint8Array): number {
    for (const [at, byte] of chunk.entries()) {
      if (status.length < UPGRADED.length) status += String.fromCharCode(byte)
      ending = byte === END_OF_HEAD[ending] ? ending + 1 : byte === CR ? 1 : 0
      if (ending < END_OF_HEAD.length) continue
      if (status === UPGRADED) return at + 1
      isFinal = !status.startsWith(INTERIM)
      if (isFinal) return -1
      ending = 0
      status = ''
    }
    return -1
  }

  return function readAnswer(chunk) {
    const end = isFinal ? -1 : findUpgrade(chunk)
    if (end < 0) return handOver(chunk)
    // This comes before ws reads the head, because ws may then begin to read the bytes that follow.
    upgraded(Buffer.from(chunk.subarray(end)))
    handOver(chunk.subarray(0, end))
  }
}

/**
 * The functions that receive the results of a frame reader. The bytes are valid until the call
 * returns.
 */
export interface FrameEvents {
  /** Receives a whole message in one frame, unmasked and uncompressed. */
  message(data: Uint8Array): void
  /**
   * Receives the bytes of all other frames: control frames, fragments, and frames that break the
   * protocol.
   */
  other(bytes: Uint8Array): void
  /** True if the receiver of `other` has not read all its bytes yet. */
  isBehind(): boolean
}

/** The first byte of a whole message: FIN and the opcode of text or binary. */
const [TEXT, BINARY] = [0x81, 0x82] as const
const [PING, PONG] = [0x89, 0x8a] as const
/** The opcode of close frames. All control frames have this opcode or a higher one. */
const CLOSE = 8
const [FIN, OPCODE, MASKED, LENGTH] = [0x80, 0x0f, 0x80, 0x7f] as const
/**
 * This length means that the real length is in the next 2 bytes. A length of 127 means the next 8
 * bytes.
 */
const IN_2_BYTES = 126
/** The number of bytes of the longest head, without the mask. */
const MAX_HEAD_BYTES = 10
const MASK_BYTES = 4

/**
 * The last head that `readHead` has read, without its mask. It is one object, so that reading a
 * head allocates no memory.
 */
const head = { bytes: 0, isMasked: false, payloadBytes: 0 }

/** Reads the head of the frame at index `at`. Returns false if the chunk ends within the head. */
function readHead(bytes: Uint8Array, at: number, end: number): boolean {
  if (at + 2 > end) return false
  const second = bytes[at + 1] as number
  const length = second & LENGTH
  head.isMasked = (second & MASKED) !== 0
  head.bytes = 2
  head.payloadBytes = length
  if (length < IN_2_BYTES) return true
  head.bytes = length === IN_2_BYTES ? 4 : MAX_HEAD_BYTES
  if (at + head.bytes > end) return false
  head.payloadBytes = 0
  for (let index = at + 2; index < at + head.bytes; index++)
    head.payloadBytes = head.payloadBytes * 256 + (bytes[index] as number)
  return true
}

/**
 * Makes a reader of the frames that a server sends (RFC 6455, section 5.2), in chunks of any size.
 * If a message of up to `maxMessageBytes` is in one plain frame, it is read from the chunk without
 * a copy. All other bytes go to ws in their order. ws decides whether a frame breaks the protocol.
 */
export function createFrameReader(
  maxMessageBytes: number,
  events: FrameEvents,
): (chunk: Uint8Array) => void {
  const cut = new CutFrame()
  /** The number of bytes of the current frame that ws has not received yet. */
  let left = 0
  let isInFragments = false
  let isClosed = false
  /**
   * The chunk had a frame that ws may reject. ws rejects it only after the chunk, so ws gets the
   * rest of the chunk too.
   */
  let isDoubtful = false

  /**
   * Whether the frame at index `at` is a message that can be read without ws. `readHead` must have
   * read its head.
   */
  function isMessage(bytes: Uint8Array, at: number): boolean {
    const first = bytes[at]
    return (
      (first === TEXT || first === BINARY) &&
      !head.isMasked &&
      head.payloadBytes <= maxMessageBytes &&
      !isInFragments &&
      !isClosed &&
      !isDoubtful &&
      !events.isBehind()
    )
  }

  /** Begins to hand the frame at index `at` to ws. `readHead` must have read its head. */
  function handOn(bytes: Uint8Array, at: number): void {
    const first = bytes[at] as number
    const opcode = first & OPCODE
    const isSign = (first === PING || first === PONG) && head.bytes === 2 && !head.isMasked
    isDoubtful ||= !isSign
    if (opcode < CLOSE) isInFragments = (first & FIN) === 0
    else if (opcode === CLOSE) isClosed = true
    left = head.bytes + (head.isMasked ? MASK_BYTES : 0) + head.payloadBytes
  }

  function pass(bytes: Uint8Array, at: number, end: number): number {
    const until = Math.min(at + left, end)
    left -= until - at
    events.other(bytes.subarray(at, until))
    return until
  }

  /** Reads the rest of the cut frame. Returns the index of the next frame. */
  function complete(chunk: Uint8Array): number {
    let at = 0
    while (!readHead(cut.bytes, 0, cut.length)) {
      if (at === chunk.length) return at
      at = cut.extend(chunk, at, cut.length < 2 ? 2 : head.bytes)
    }
    if (isMessage(cut.bytes, 0)) {
      const { bytes, payloadBytes } = head
      at = cut.extend(chunk, at, bytes + payloadBytes)
      if (cut.length < bytes + payloadBytes) return at
      cut.length = 0
      events.message(cut.bytes.subarray(bytes, bytes + payloadBytes))
    } else {
      handOn(cut.bytes, 0)
      pass(cut.bytes, 0, cut.length)
      cut.length = 0
    }
    return at
  }

  return function read(chunk) {
    isDoubtful = false
    const end = chunk.length
    let at = cut.length === 0 ? 0 : complete(chunk)
    while (at < end) {
      if (left > 0) at = pass(chunk, at, end)
      else if (!readHead(chunk, at, end)) at = cut.extend(chunk, at, end - at)
      else if (!isMessage(chunk, at)) handOn(chunk, at)
      else {
        const start = at + head.bytes
        const until = start + head.payloadBytes
        if (until > end) at = cut.extend(chunk, at, end - at)
        else {
          at = until
          events.message(chunk.subarray(start, until))
        }
      }
    }
  }
}

/** The first part of a frame that continues in the next chunk. */
class CutFrame {
  bytes: Uint8Array = new Uint8Array(4096)
  length = 0

  /**
   * Adds bytes of a chunk, from index `at` on, until this part has `size` bytes. Returns the index
   * after the added bytes.
   */
  extend(chunk: Uint8Array, at: number, size: number): number {
    const until = Math.min(at + size - this.length, chunk.length)
    const length = this.length + until - at
    if (length > this.bytes.length) {
      // Memory is allocated only for bytes that have arrived, never for a length that a head
      // announces.
      const longer = new Uint8Array(2 * length)
      longer.set(this.bytes.subarray(0, this.length))
      this.bytes = longer
    }
    this.bytes.set(chunk.subarray(at, until), this.length)
    this.length = length
    return until
  }
}
