import type { BigIntStats } from 'node:fs'
import { constants, type FileHandle, lstat, open, rename } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { isStreamsError } from 'sluice/core'
import { codeOf, type Permissions, syncFolder } from 'sluice/internal'
import { type AuditReading, createAuditReader, filesOf } from './read-log.js'
import {
  type AuditContent,
  type AuditCut,
  type AuditHead,
  auditError,
  formatRecord,
  hashOf,
} from './record.js'

/** A record to write. */
export interface Draft {
  readonly content: AuditContent
  readonly time: string
}

/** A record that was written. */
export interface Written {
  readonly line: string
  readonly head: AuditHead
}

/** Options of a writer. */
export interface WriterOptions {
  readonly maxBytes: number
  /** True if records must be on the disk before they count as written. */
  readonly isSynced: boolean
  readonly permissions: Permissions
}

const { O_APPEND, O_CREAT, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_WRONLY } = constants
/**
 * Without O_NONBLOCK, opening a named pipe would wait for a reader. Without O_NOFOLLOW, somebody
 * else could choose the file with a link.
 */
const FLAGS = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW

/**
 * Writes records to the end of a file. If a method fails, call `recover` before any other method.
 */
export class AuditWriter {
  readonly #file: string
  readonly #options: WriterOptions
  #handle: FileHandle
  #size: number
  #head: AuditHead
  #needsBreak: boolean
  /** True during a write, and after a failed write that may have left some of its bytes. */
  #isHalfWritten = false
  /** The stats of the file that is written; undefined while a rotation begins another file. */
  #identity: BigIntStats | undefined
  /** The last line of the file when it was opened, if that line had no end. */
  readonly cut: AuditCut | undefined

  private constructor(
    file: string,
    options: WriterOptions,
    handle: FileHandle,
    identity: BigIntStats,
    { head, openEnd }: AuditReading,
  ) {
    this.#file = file
    this.#options = options
    this.#handle = handle
    this.#identity = identity
    this.#size = Number(identity.size)
    this.#head = head
    this.#needsBreak = openEnd !== undefined
    this.cut = openEnd && { at: openEnd.at, bytes: openEnd.bytes, sha256: openEnd.sha256 }
  }

  /** Opens a file to append to, after checking its records. */
  static async open(file: string, options: WriterOptions): Promise<AuditWriter> {
    const { past } = filesOf(file)
    const handle = await openFile(file, options.permissions)
    try {
      const identity = await handle.stat({ bigint: true })
      const reader = createAuditReader()
      // If the file is empty, the process may have ended between the two steps of a rotation.
      const latest = identity.size > 0n ? file : past.at(-1)
      if (latest !== undefined) await reader.read(latest)
      return new AuditWriter(file, options, handle, identity, reader.reading())
    } catch (thrown) {
      await handle.close()
      throw asAuditError(file, thrown)
    }
  }

  get head(): AuditHead {
    return this.#head
  }

  isFull(): boolean {
    return this.#size >= this.#options.maxBytes
  }

  write(drafts: readonly Draft[]): Promise<readonly Written[]> {
    const written: Written[] = []
    let head = this.#head
    for (const { content, time } of drafts) {
      const line = formatRecord(content, time, head)
      head = { seq: head.seq + 1, hash: hashOf(line) }
      written.push({ line, head })
    }
    const text = `${this.#needsBreak ? '\n' : ''}${written.map(({ line }) => `${line}\n`).join('')}`
    return this.#guarded(async () => {
      await this.#checkFile()
      this.#isHalfWritten = true
      await this.#handle.appendFile(text)
      if (this.#options.isSynced) await this.#handle.datasync()
      this.#isHalfWritten = false
      this.#size += Buffer.byteLength(text)
      this.#needsBreak = false
      this.#head = head
      return written
    })
  }

  /**
   * Removes the bytes that a failed write has left, so that the file ends with the last record.
   * Rejects if that is impossible.
   */
  recover(): Promise<void> {
    return this.#guarded(async () => {
      await this.close()
      // If the file was deleted, no new file is made in its place.
      const before = this.#identity
      const flags = before === undefined ? FLAGS : FLAGS & ~O_CREAT
      this.#handle = await openFile(this.#file, this.#options.permissions, flags)
      const held = await this.#handle.stat({ bigint: true })
      if (before !== undefined && (held.ino !== before.ino || held.dev !== before.dev))
        throw replaced(this.#file)
      this.#identity = held
      // These bytes can be removed: the write failed, so no caller counts on their records.
      if (this.#isHalfWritten && held.size > BigInt(this.#size)) {
        await this.#handle.truncate(this.#size)
        if (this.#options.isSynced) await this.#handle.datasync()
      }
      this.#isHalfWritten = false
      await this.#checkFile()
    })
  }

  /** Renames the file and begins another one. Returns the new name of the old file. */
  rotate(): Promise<string> {
    return this.#guarded(async () => {
      const name = `${this.#file}.${filesOf(this.#file).next}`
      await this.#checkFile()
      await this.#handle.close()
      await rename(this.#file, name)
      this.#size = 0
      this.#identity = undefined
      this.#handle = await openFile(this.#file, this.#options.permissions)
      this.#identity = await this.#handle.stat({ bigint: true })
      return basename(name)
    })
  }

  async close(): Promise<void> {
    await this.#handle.close().catch(() => undefined)
  }

  /**
   * Rejects if the file was renamed, deleted or replaced, or if somebody else has written to it.
   * Records that are appended to such a file prove nothing.
   */
  async #checkFile(): Promise<void> {
    const held = await this.#handle.stat({ bigint: true })
    const named = await lstat(this.#file, { bigint: true }).catch(() => undefined)
    if (named?.ino !== held.ino || named.dev !== held.dev) throw replaced(this.#file)
    if (held.size !== BigInt(this.#size))
      throw auditError(`${this.#file} was written by somebody else: no more records are`)
  }

  async #guarded<Value>(work: () => Promise<Value>): Promise<Value> {
    try {
      return await work()
    } catch (thrown) {
      throw asAuditError(this.#file, thrown)
    }
  }
}

function asAuditError(file: string, thrown: unknown): Error {
  return isStreamsError(thrown) ? thrown : auditError(`${file} can't be written: ${codeOf(thrown)}`)
}

function replaced(file: string): Error {
  return auditError(`${file} was replaced or deleted: no more records are written`)
}

async function openFile(
  file: string,
  permissions: Permissions,
  flags = FLAGS,
): Promise<FileHandle> {
  let handle: FileHandle
  try {
    handle = await open(file, flags, 0o600)
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT' && (flags & O_CREAT) === 0) throw replaced(file)
    if (codeOf(thrown) === 'ELOOP') throw linkError(file)
    throw asAuditError(file, thrown)
  }
  try {
    const stats = await handle.stat()
    // Checked again, because not every system supports O_NOFOLLOW.
    if ((await lstat(file)).isSymbolicLink()) throw linkError(file)
    if (!stats.isFile()) throw auditError(`${file} is not a file`)
    // The umask may have removed bits of a new file.
    if (stats.size === 0 && (stats.mode & 0o600) !== 0o600) await handle.chmod(0o600)
    permissions.checkFile(file, stats, 'secret')
    permissions.checkParents(file)
    await syncFolder(dirname(file))
    return handle
  } catch (thrown) {
    await handle.close()
    throw thrown
  }
}

/**
 * Rejects if the file is a link or not a regular file. With a link, others could choose where
 * records go. A missing file is accepted: it will be made.
 */
export async function checkAuditFile(file: string): Promise<void> {
  const entry = await lstat(file).catch(() => undefined)
  if (entry?.isSymbolicLink()) throw linkError(file)
  if (entry?.isFile() === false) throw auditError(`${file} is not a file`)
}

function linkError(file: string): Error {
  return auditError(
    `${file} is a symbolic link, and an audit log must not be one: name the file itself`,
  )
}
