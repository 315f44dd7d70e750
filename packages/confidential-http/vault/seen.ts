import { isStreamsError } from 'sluice/core'
import type { Permissions } from 'sluice/internal'
import { codeOf, readText, writeWhole } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { fileError } from './files.js'
import type { SignedManifest } from './manifest.js'

/** The newest state of a vault that was seen. */
export interface SeenState {
  readonly sequence: number
  readonly digest: string
}

/** Remembers the newest state of a vault, so that an older one is noticed. */
export interface Seen {
  newest(): Promise<SeenState | undefined>
  /** Remembers a state if it is newer. */
  add(state: SeenState): Promise<void>
}

const MAX_BYTES = 1024

/** Remembers in memory, and in a file if one is given: best on another disk than the vault. */
export function createSeen(
  file: string | undefined,
  permissions: Permissions,
  writer: string,
): Seen {
  let newest: SeenState | undefined
  let isRead = file === undefined

  async function readNewest(): Promise<SeenState | undefined> {
    if (!isRead) {
      newest = await read(file as string, permissions, writer)
      isRead = true
    }
    return newest
  }

  return {
    newest: readNewest,
    async add({ sequence, digest }) {
      const before = await readNewest()
      if (before !== undefined && before.sequence >= sequence) return
      newest = { sequence, digest }
      if (file !== undefined) await write(file, newest, writer)
    },
  }
}

/** Throws VaultError (`ROLLBACK`) for a manifest that is older than what was seen, or another of its number. */
export function compare(
  seen: SeenState | undefined,
  { sequence, digest, history }: SignedManifest,
  shown: string,
): void {
  if (seen === undefined) return
  if (sequence < seen.sequence)
    throw rollback(
      `${shown} is older than it was: change ${seen.sequence} was seen, and this is ${sequence}`,
    )
  const then = sequence === seen.sequence ? digest : history[sequence - seen.sequence - 1]
  // Further back than the history, any digest may have been the one.
  if (then !== undefined && then !== seen.digest)
    throw rollback(
      `${shown} has another history than was seen: its change ${seen.sequence} was another`,
    )
}

/** The error for a vault that was put back to an older state. */
export function rollback(message: string): VaultError {
  return new VaultError(message, { code: 'ROLLBACK' })
}

async function read(
  file: string,
  permissions: Permissions,
  writer: string,
): Promise<SeenState | undefined> {
  let text: string
  try {
    text = await readText(
      file,
      MAX_BYTES,
      rule => new VaultError(`${file} ${rule}`),
      stats => permissions.checkFile(file, stats, 'public'),
    )
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw isStreamsError(error) ? error : fileError(file, 'read', error)
  }
  const [, sequence, digest, seenWriter] =
    /^(\d{1,15}) ([0-9a-f]{64}) ([0-9a-f]{64})\s*$/.exec(text) ?? []
  if (sequence === undefined || digest === undefined)
    throw new VaultError(`${file} does not hold the newest state of a vault`)
  // Who can write the directory can sign manifests with a key of their own.
  if (seenWriter !== writer)
    throw rollback(`the vault has another writer than ${file} has seen: ${writer.slice(0, 8)}…`)
  return { sequence: Number(sequence), digest }
}

async function write(file: string, { sequence, digest }: SeenState, writer: string): Promise<void> {
  try {
    await writeWhole(file, `${sequence} ${digest} ${writer}\n`)
  } catch (error) {
    throw fileError(file, 'written', error)
  }
}
