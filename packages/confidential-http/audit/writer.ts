import type { BigIntStats } from 'node:fs'
import { constants, type FileHandle, lstat, open, rename } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { isStreamsError } from 'sluice/core'
import type { Permissions } from 'sluice/internal'
import { codeOf, syncFolder } from 'sluice/internal'
import { createAuditReader, filesOf } from './read-log.js'
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

/** Writes records to the end of a file. After an error of one of its methods `recover` comes first. */
export interface Writer {
  readonly head: AuditHead
  /** The line that the file ended with, where that had no end. */
  readonly cut?: AuditCut
  isFull(): boolean
  /** Renames the file and begins another; returns the new name of the old one. */
  rotate(): Promise<string>
  write(drafts: readonly Draft[]): Promise<readonly Written[]>
  /** Takes back what a failed write has left, so that the file ends with the last record. Rejects where that can't be. */
  recover(): Promise<void>
  close(): Promise<void>
}

/** Options of `openWriter`. */
export interface WriterOptions {
  readonly maxBytes: number
  /** Whether records are on the disk before they count as written. */
  readonly isSynced: boolean
  readonly permissions: Permissions
}

const { O_APPEND, O_CREAT, O_NOFOLLOW = 0, O_NONBLOCK = 0, O_WRONLY } = constants
/** Without O_NONBLOCK, opening a named pipe would wait for a reader. Through a link, somebody else could choose the file. */
const FLAGS = O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOFOLLOW

/** Opens a file to append to, after checking all that it holds. */
export async function openWriter(
  file: string,
  { maxBytes, isSynced, permissions }: WriterOptions,
): Promise<Writer> {
  const { past } = filesOf(file)
  let handle = await openFile(file, permissions)
  let size = 0
  let head: AuditHead
  let cut: AuditCut | undefined
  try {
    size = (await handle.stat()).size
    const reader = createAuditReader()
    // The process may have ended between the two steps of a rotation.
    const latest = size > 0 ? file : past.at(-1)
    if (latest !== undefined) await reader.read(latest)
    const reading = reader.reading()
    head = reading.head
    if (reading.openEnd !== undefined) {
      const { at, bytes, sha256 } = reading.openEnd
      cut = { at, bytes, sha256 }
    }
  } catch (thrown) {
    await handle.close()
    throw wrap(thrown)
  }
  let needsBreak = cut !== undefined
  /** A write has failed, which may have left some of its bytes. */
  let isHalfWritten = false
  /** The file that is written; undefined while a rotation begins another. */
  let identity: BigIntStats | undefined = await handle.stat({ bigint: true })

  async function write(drafts: readonly Draft[]): Promise<readonly Written[]> {
    const written: Written[] = []
    for (const { content, time } of drafts) {
      const line = formatRecord(content, time, written.at(-1)?.head ?? head)
      const seq = (written.at(-1)?.head ?? head).seq + 1
      written.push({ line, head: { seq, hash: hashOf(line) } })
    }
    const text = `${needsBreak ? '\n' : ''}${written.map(({ line }) => `${line}\n`).join('')}`
    try {
      await checkFile()
      isHalfWritten = true
      await handle.appendFile(text)
      if (isSynced) await handle.datasync()
      isHalfWritten = false
    } catch (thrown) {
      throw wrap(thrown)
    }
    size += Buffer.byteLength(text)
    needsBreak = false
    head = written.at(-1)?.head ?? head
    return written
  }

  async function recover(): Promise<void> {
    try {
      await handle.close().catch(() => undefined)
      // A file that was deleted is not begun anew.
      handle = await openFile(file, permissions, identity === undefined ? FLAGS : FLAGS & ~O_CREAT)
      const held = await handle.stat({ bigint: true })
      if (identity !== undefined && (held.ino !== identity.ino || held.dev !== identity.dev))
        throw auditError(`${file} was replaced or deleted: no more records are written`)
      identity = held
      // Nobody has been given what a failed write has left.
      if (isHalfWritten && held.size > BigInt(size)) {
        await handle.truncate(size)
        if (isSynced) await handle.datasync()
      }
      isHalfWritten = false
      await checkFile()
    } catch (thrown) {
      throw wrap(thrown)
    }
  }

  /** A record that is appended to a file without a name, or to one that others write, counts for nothing. */
  async function checkFile(): Promise<void> {
    const held = await handle.stat({ bigint: true })
    const named = await lstat(file, { bigint: true }).catch(() => undefined)
    if (named?.ino !== held.ino || named.dev !== held.dev)
      throw auditError(`${file} was replaced or deleted: no more records are written`)
    if (held.size !== BigInt(size))
      throw auditError(`${file} was written by somebody else: no more records are`)
  }

  async function rotate(): Promise<string> {
    try {
      const name = `${file}.${filesOf(file).next}`
      await checkFile()
      await handle.close()
      await rename(file, name)
      size = 0
      identity = undefined
      handle = await openFile(file, permissions)
      identity = await handle.stat({ bigint: true })
      return basename(name)
    } catch (thrown) {
      throw wrap(thrown)
    }
  }

  function wrap(thrown: unknown): Error {
    return isStreamsError(thrown)
      ? thrown
      : auditError(`${file} can't be written: ${codeOf(thrown)}`)
  }

  return {
    get head() {
      return head
    },
    ...(cut === undefined ? {} : { cut }),
    isFull: () => size >= maxBytes,
    rotate,
    write,
    recover,
    close: () => handle.close().catch(() => undefined),
  }
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
    if (codeOf(thrown) === 'ENOENT' && (flags & O_CREAT) === 0)
      throw auditError(`${file} was replaced or deleted: no more records are written`)
    if (codeOf(thrown) === 'ELOOP') throw linkError(file)
    throw auditError(`${file} can't be written: ${codeOf(thrown)}`)
  }
  try {
    const stats = await handle.stat()
    // Not every system knows O_NOFOLLOW.
    if ((await lstat(file)).isSymbolicLink()) throw linkError(file)
    if (!stats.isFile()) throw auditError(`${file} is not a file`)
    // The umask may have removed bits of a new one.
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

/** Rejects where the file is a link, so that others would choose where records go, or no file; one that is not there will be made. */
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
