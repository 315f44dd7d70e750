// What a core dump of a process would hold, read without one: every readable page of `/proc/PID/mem`.
import { closeSync, openSync, readFileSync, readSync } from 'node:fs'

/** The readable regions of a process, one at a time: together they may be larger than this process should grow. */
export function* readMemory(pid) {
  const file = openSync(`/proc/${pid}/mem`, 'r')
  try {
    for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
      const [, from, to, path = ''] =
        /^([0-9a-f]+)-([0-9a-f]+) r.{3} \S+ \S+ \S+\s*(.*)$/.exec(line) ?? []
      if (from === undefined || path === '[vvar]' || path === '[vsyscall]') continue
      const start = BigInt(`0x${from}`)
      const bytes = Buffer.alloc(Number(BigInt(`0x${to}`) - start))
      try {
        yield {
          path,
          start,
          bytes: bytes.subarray(0, readSync(file, bytes, 0, bytes.length, start)),
        }
      } catch {
        // It was unmapped meanwhile, or can't be read.
      }
    }
  } finally {
    closeSync(file)
  }
}

/** The shortest piece of a secret that counts as a copy of it: the start of freed memory is overwritten. */
const PIECE = 13

/** The forms in which a piece may lie in memory: bytes of text, UTF-16, base64 at each offset, hexadecimal digits. */
function formsOfPiece(piece) {
  const bytes = Buffer.from(piece)
  const base64 = [0, 1, 2].map(before =>
    Buffer.concat([Buffer.alloc(before), bytes])
      .toString('base64')
      .slice(before === 0 ? 0 : 4)
      .replace(/.{0,3}=*$/, ''),
  )
  return {
    text: [bytes],
    'UTF-16': [Buffer.from(piece, 'utf16le')],
    base64: [...base64, ...base64.map(text => text.toLowerCase())].map(text => Buffer.from(text)),
    'lower case': [Buffer.from(piece.toLowerCase())],
    hexadecimal: [bytes.toString('hex'), bytes.toString('hex').toUpperCase()].map(text =>
      Buffer.from(text),
    ),
  }
}

/** Counts copies of a secret of letters and digits: places where a piece of it lies. Pieces of one copy count once. */
export class CopyCounter {
  #forms = []
  #reach

  constructor(secret) {
    for (let at = 0; at + PIECE <= secret.length; at += PIECE)
      for (const [form, spellings] of Object.entries(formsOfPiece(secret.slice(at, at + PIECE))))
        for (const bytes of spellings) this.#forms.push({ form, bytes })
    // In UTF-16 and in hexadecimal digits a copy takes twice its length.
    this.#reach = 2 * secret.length
  }

  /** The copies in the memory of a process: how many, of which forms, and where. */
  count(pid, { around = 0 } = {}) {
    const copies = []
    for (const { path, start, bytes } of readMemory(pid)) {
      const found = []
      for (const { form, bytes: piece } of this.#forms)
        for (let at = bytes.indexOf(piece); at >= 0; at = bytes.indexOf(piece, at + 1))
          found.push({ form, at })
      found.sort((one, other) => one.at - other.at)
      let end = -1
      for (const { form, at } of found) {
        if (at >= end) {
          const near = bytes.subarray(Math.max(0, at - around), at + this.#reach + around)
          copies.push({
            form,
            path: path || 'anonymous',
            address: start + BigInt(at),
            near: around > 0 ? near.toString('latin1').replace(/[^\x20-\x7e]/g, '.') : '',
          })
          end = at + this.#reach
        }
      }
    }
    return copies
  }
}
