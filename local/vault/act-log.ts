import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import host from 'node:process'
import { isStreamsError } from '../../core/errors.js'
import { type AuditError, auditError } from '../audit/record.js'
import { openWriter } from '../audit/writer.js'
import { codeOf } from '../files.js'
import { takeLock } from '../lock.js'
import type { VaultFolder } from './files.js'
import type { SignedManifest } from './manifest.js'

/** The file of the acts of those who change a vault: an audit log. */
export const ACTS_FILE = 'audit.jsonl'

const MAX_BYTES = 16_777_216
/** Milliseconds to wait for another process that records its act. */
const PATIENCE = 10_000

/**
 * Returns what records each change of a vault, once it was made, with who made it. A process that ends in between leaves the number
 * of its change out, which a verification names.
 */
export function createActLog(
  folder: VaultFolder,
): (made: Pick<SignedManifest, 'sequence' | 'digest' | 'generation' | 'act'>) => Promise<void> {
  const file = join(folder.directory, ACTS_FILE)
  return async function record({ sequence, digest, generation, act }) {
    const unrecorded = (why: string): AuditError =>
      auditError(`change ${sequence} was made, and is not recorded: ${why}`)
    const lock = await takeLock(`${file}.lock`, { patience: PATIENCE }).catch(thrown => {
      throw unrecorded(`${file}.lock can't be written: ${codeOf(thrown)}`)
    })
    if (typeof lock === 'string') throw unrecorded(`${file} belongs to ${lock}`)
    try {
      const { permissions } = folder
      const writer = await openWriter(file, { maxBytes: MAX_BYTES, isSynced: true, permissions })
      try {
        if (writer.isFull()) await writer.rotate()
        const { cut } = writer
        const { type: what, ...facts } = act ?? { type: 'change' }
        const change = { type: 'change', change: sequence, act: what, ...facts, generation, digest }
        const by = { user: userNow(), host: hostname(), pid: host.pid }
        const start = cut === undefined ? [] : [{ type: 'start', cut }]
        const time = new Date().toISOString()
        await writer.write([...start, { ...change, by }].map(content => ({ content, time })))
      } finally {
        await writer.close()
      }
    } catch (thrown) {
      throw isStreamsError(thrown, 'AUDIT') ? unrecorded(thrown.message) : thrown
    } finally {
      lock.release()
    }
  }
}

function userNow(): string {
  try {
    return userInfo().username
  } catch {
    // A user of a container may have no name.
    return String(host.getuid?.() ?? '')
  }
}
