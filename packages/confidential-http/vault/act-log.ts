import { hostname, userInfo } from 'node:os'
import { join } from 'node:path'
import host from 'node:process'
import { isStreamsError } from 'sluice/core'
import { codeOf, takeLock } from 'sluice/internal'
import { auditError } from '../audit/record.js'
import { AuditWriter, checkAuditFile } from '../audit/writer.js'
import type { VaultFolder } from './files.js'
import type { SignedManifest } from './manifest.js'

/** The file with the audit log of a vault: it records the changes, or the releases of a holder. */
export const ACTS_FILE = 'audit.jsonl'

const MAX_BYTES = 16_777_216
/** Milliseconds to wait while another process records its change. */
const PATIENCE = 10_000

/** Records each change of a vault, and who made it. */
export class ActLog {
  readonly #folder: VaultFolder
  readonly #file: string

  constructor(folder: VaultFolder) {
    this.#folder = folder
    this.#file = join(folder.directory, ACTS_FILE)
  }

  /**
   * Called before a change. Rejects if something other than a regular file is in the place of the
   * log, because the change could not be recorded.
   */
  check(): Promise<void> {
    return checkAuditFile(this.#file)
  }

  /**
   * Records a change that was made. If the process ends before that, the number of its change is
   * missing in the log. A verification of the log reports that number.
   */
  async record(made: Made): Promise<void> {
    try {
      await this.#append(made)
    } catch (thrown) {
      const why = isStreamsError(thrown) ? thrown.message : `${this.#file}: ${codeOf(thrown)}`
      throw auditError(`change ${made.sequence} was made, and is not recorded: ${why}`)
    }
  }

  async #append({ sequence, digest, generation, act }: Made): Promise<void> {
    const file = this.#file
    const lock = await takeLock(`${file}.lock`, { patience: PATIENCE })
    if (typeof lock === 'string') throw auditError(`${file} belongs to ${lock}`)
    try {
      const { permissions } = this.#folder
      const writer = await AuditWriter.open(file, {
        maxBytes: MAX_BYTES,
        isSynced: true,
        permissions,
      })
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
    } finally {
      lock.release()
    }
  }
}

type Made = Pick<SignedManifest, 'sequence' | 'digest' | 'generation' | 'act'>

function userNow(): string {
  try {
    return userInfo().username
  } catch {
    // The user of a container may have no name.
    return String(host.getuid?.() ?? '')
  }
}
