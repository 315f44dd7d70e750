import { isStreamsError } from 'sluice/core'
import { codeOf, type Permissions, readTextFile, writeWhole } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { fileError } from './files.js'
import type { SignedManifest } from './manifest.js'

/** A state of a vault, as a process remembers it. */
export type SeenState = Pick<SignedManifest, 'sequence' | 'digest'>

/** The longest file of a state: a number, a digest and a public key fit. */
const MAX_BYTES = 1024

/**
 * Remembers the newest state of a vault, to detect an older one. The state is kept in memory, and
 * also in a file if one is given. That file is best stored on another disk than the vault.
 */
export class RollbackState {
  readonly #file: string | undefined
  readonly #permissions: Permissions
  readonly #writer: string
  #newest: SeenState | undefined
  #isRead: boolean

  constructor(file: string | undefined, permissions: Permissions, writer: string) {
    this.#file = file
    this.#permissions = permissions
    this.#writer = writer
    this.#isRead = file === undefined
  }

  async newest(): Promise<SeenState | undefined> {
    if (!this.#isRead) this.#newest = await this.#read(this.#file as string)
    this.#isRead = true
    return this.#newest
  }

  /** Remembers a state if it is newer than the remembered one. */
  async add({ sequence, digest }: SeenState): Promise<void> {
    const before = await this.newest()
    if (before !== undefined && before.sequence >= sequence) return
    this.#newest = { sequence, digest }
    const file = this.#file
    if (file !== undefined)
      await writeWhole(file, `${sequence} ${digest} ${this.#writer}\n`).catch(error => {
        throw fileError(file, 'written', error)
      })
  }

  async #read(file: string): Promise<SeenState | undefined> {
    let text: string
    try {
      text = await readTextFile(
        file,
        MAX_BYTES,
        rule => new VaultError(`${file} ${rule}`),
        stats => this.#permissions.checkFile(file, stats, 'public'),
      )
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined
      throw isStreamsError(error) ? error : fileError(file, 'read', error)
    }
    const [, sequence, digest, writer] =
      /^(\d{1,15}) ([0-9a-f]{64}) ([0-9a-f]{64})\s*$/.exec(text) ?? []
    if (sequence === undefined || digest === undefined)
      throw new VaultError(`${file} does not hold the newest state of a vault`)
    // An attacker who can write the directory could sign manifests with another key.
    if (writer !== this.#writer)
      throw rollback(
        `the vault has another writer than ${file} has seen: ${this.#writer.slice(0, 8)}…`,
      )
    return { sequence: Number(sequence), digest }
  }
}

/**
 * Throws VaultError (`ROLLBACK`) if a manifest is older than the state that was seen, or does not
 * descend from that state.
 */
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
  // If the seen state is older than the history reaches, its digest can't be checked.
  if (then !== undefined && then !== seen.digest)
    throw rollback(
      `${shown} has another history than was seen: its change ${seen.sequence} was another`,
    )
}

/**
 * Throws VaultError (`ROLLBACK`) if a manifest does not revoke a key that was revoked before. A
 * backup from before the revocation would otherwise trust the key again.
 */
export function checkRevoked(
  seen: Pick<SignedManifest, 'revoked'> | undefined,
  { sequence, revoked = [] }: SignedManifest,
): void {
  const lost = seen?.revoked?.find(key => !revoked.includes(key))
  if (lost !== undefined)
    throw rollback(`change ${sequence} does not revoke ${lost}, which was revoked: revoke it again`)
}

/** The error for a vault that was set back to an older state. */
export function rollback(message: string): VaultError {
  return new VaultError(message, { code: 'ROLLBACK' })
}
