const [CR, LF] = [13, 10] as const
const END_OF_HEAD = [CR, LF, CR, LF] as const
const UPGRADED = 'HTTP/1.1 101'
const INTERIM = 'HTTP/1.1 1'

/**
 * Makes a reader of the answer to an upgrade, which hands over what it reads as it comes. Behind the head of an answer 101 it calls
 * `upgraded` with what has come after it; behind that of any other final answer it goes on to the end of the connection.
 */
export function createAnswerReader(
  handOver: (bytes: Uint8Array) => void,
  upgraded: (rest: Buffer) => void,
): (bytes: Uint8Array) => void {
  /** The first characters of the present head. */
  let status = ''
  /** How many bytes of the end of a head came last. */
  let ending = 0
  let isFinal = false

  /** The place behind the head of an answer 101, or -1. */
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
    // Before ws reads the head: it may begin to read what follows.
    upgraded(Buffer.from(chunk.subarray(end)))
    handOver(chunk.subarray(0, end))
  }
}
