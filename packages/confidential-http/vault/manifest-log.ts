import { randomInt } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { isStreamsError } from 'sluice/core'
import { codeOf } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import type { ActLog } from './act-log.js'
import { fileError, type VaultFolder } from './files.js'
import type { Writer } from './identity.js'
import {
  HISTORY,
  MAX_MANIFEST_BYTES,
  type Manifest,
  readManifest,
  type SignedManifest,
  signManifest,
} from './manifest.js'
import { compare, type RollbackState } from './rollback.js'
import { SECRETS_FOLDER } from './secret-store.js'
import { folderOf, SHARES_FOLDER } from './share-files.js'
import { createBatch, createTurns } from './turns.js'

/** The folder of the manifests. The manifest with the highest number is the vault's state. */
export const MANIFESTS_FOLDER = 'manifests'
/** How many manifests are kept. A writer that is further behind must try again. */
const RETAINED = 16
/** The most attempts at a read or a change. An attempt fails if another process was first. */
const MAX_ATTEMPTS = 500

/** The fields of a manifest that a change replaces. */
export type Change = Partial<Omit<Manifest, 'sequence' | 'history'>>
/** Makes a change of the state `base`. It is called again if another process was first. */
export type MakeChange = (base: SignedManifest) => Change | Promise<Change>

/** Writes the first manifest of a vault. */
export async function writeFirst(
  folder: VaultFolder,
  writer: Writer,
  first: Omit<Manifest, 'sequence' | 'history'>,
): Promise<void> {
  const { text } = signManifest({ sequence: 1, history: [], ...first }, writer)
  await folder.writeNew(fileOf(1), text)
}

/**
 * The manifests of a vault. Any number of processes can read and change them. Each manifest is a
 * file that is written once.
 */
export class ManifestLog {
  readonly #folder: VaultFolder
  readonly #writerKey: string
  readonly #seen: RollbackState
  readonly #acts: ActLog | undefined
  #cached: SignedManifest | undefined
  /** Runs the changes of this process one after the other, so that they don't compete. */
  readonly #inTurn = createTurns()

  /** Opens the manifests that this writer has signed. Changes are recorded in `acts`. */
  constructor(folder: VaultFolder, writerKey: string, seen: RollbackState, acts?: ActLog) {
    this.#folder = folder
    this.#writerKey = writerKey
    this.#seen = seen
    this.#acts = acts
  }

  /**
   * The current state: the same object until it changes. Rejects (`ROLLBACK`) if the state is older
   * than a state that was seen. Simultaneous requests read the folder once.
   */
  readonly head: () => Promise<SignedManifest> = createBatch(() => this.#readHead())

  /** The newest stored state that has another generation than `generation`. */
  async before(generation: number): Promise<SignedManifest | undefined> {
    for (const sequence of (await this.#numbers()).sort((one, other) => other - one)) {
      const found = await this.#read(sequence)
      if (found !== undefined && found.generation !== generation) return found
    }
    return undefined
  }

  /** Makes the next state from the current one, completely or not at all. */
  commit(
    writer: Writer,
    change: MakeChange,
  ): Promise<{ readonly base: SignedManifest; readonly next: SignedManifest }> {
    return this.#inTurn(() => this.#commit(writer, change))
  }

  /**
   * Makes a next state that processes accept even if they have seen changes up to `after` of
   * another history. Rejects if another process has made a change meanwhile, which is lost.
   */
  recover(writer: Writer, after: number): Promise<SignedManifest> {
    return this.#inTurn(() => this.#recover(writer, after))
  }

  async #readHead(): Promise<SignedManifest> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      // Read before the folder is listed, because others may see a newer state meanwhile.
      const newest = await this.#seen.newest()
      const highest = Math.max(0, ...(await this.#numbers()))
      if (highest === 0) throw new VaultError(`${MANIFESTS_FOLDER} has no manifest`)
      // The permissions of the folders may have changed since the vault was opened.
      checkFolders(this.#folder, this.#cached?.generation)
      if (this.#cached?.sequence === highest) return this.#cached
      const found = await this.#read(highest)
      if (found === undefined) continue
      compare(newest, found, this.#folder.directory)
      await this.#seen.add(found)
      this.#cached = found
      return found
    }
    throw changedTooOften()
  }

  async #commit(
    writer: Writer,
    change: MakeChange,
  ): Promise<{ readonly base: SignedManifest; readonly next: SignedManifest }> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const base = await this.head()
      await this.#acts?.check()
      const { digest, text: _, ...fields } = base
      const made = { ...fields, act: undefined, ...(await change(base)) }
      const history = [digest, ...base.history].slice(0, HISTORY)
      const next = signManifest({ ...made, sequence: base.sequence + 1, history }, writer)
      if (await this.#link(base, next)) {
        this.#cached = next
        // Recorded before anything else: even if a later step fails, the change was made.
        try {
          await this.#acts?.record(next)
        } finally {
          await this.#seen.add(next)
        }
        // An unsettled change may be taken back to the previous generation, so its last state is
        // kept. If that state can't be read, it would be of no use.
        const kept =
          next.isUnsettled === true
            ? await this.before(next.generation).catch(() => undefined)
            : undefined
        await this.#prune(next.sequence, kept?.sequence)
        return { base, next }
      }
      await sleep(randomInt(1, 20))
    }
    throw changedTooOften()
  }

  async #recover(writer: Writer, after: number): Promise<SignedManifest> {
    const base = await this.head()
    await this.#acts?.check()
    const { digest: _, text: __, ...fields } = base
    const next = signManifest(
      {
        ...fields,
        act: { type: 'recover', from: base.sequence },
        // The number is further ahead than a history reaches. So processes accept the state
        // although it does not descend from any state that they have seen.
        sequence: Math.max(base.sequence, after) + HISTORY + 1,
        history: Array.from({ length: HISTORY }, () => '0'.repeat(64)),
        // Unsettled, so that holders keep shares of other generations until a resharing: a later
        // backup may need them.
        isUnsettled: base.addresses === undefined ? undefined : true,
      },
      writer,
    )
    if (!(await this.#link(base, next))) throw changedTooOften()
    this.#cached = next
    await this.#seen.add(next)
    // Without this file, no other process can commit a change to the old state.
    await rm(this.#folder.path(fileOf(base.sequence)), { force: true })
    const numbers = await this.#numbers()
    const lost = numbers.filter(each => each > base.sequence && each < next.sequence)
    await this.#prune(next.sequence)
    await this.#acts?.record(next)
    if (lost.length > 0)
      throw new VaultError(
        `another process made change ${lost.join(', ')} meanwhile, which is lost: make it again`,
      )
    return next
  }

  async #numbers(): Promise<number[]> {
    try {
      const entries = await readdir(this.#folder.path(MANIFESTS_FOLDER))
      return entries.flatMap(entry => {
        const [, digits] = /^(\d{1,15})\.json$/.exec(entry) ?? []
        return digits === undefined ? [] : [Number(digits)]
      })
    } catch (error) {
      throw fileError(MANIFESTS_FOLDER, 'read', error)
    }
  }

  /** Reads a manifest. Undefined if others have made so many changes since that it was removed. */
  async #read(sequence: number): Promise<SignedManifest | undefined> {
    const file = fileOf(sequence)
    const text = await this.#folder.readText(file, MAX_MANIFEST_BYTES, 'public')
    if (text === undefined) return undefined
    const manifest = readManifest(text, this.#writerKey, file)
    if (manifest.sequence !== sequence) throw new VaultError(`${file} is not that of its number`)
    return manifest
  }

  /** Writes the manifest. Returns false if another process was first. */
  async #link(base: SignedManifest, next: SignedManifest): Promise<boolean> {
    const file = fileOf(next.sequence)
    try {
      await this.#folder.writeNew(file, next.text)
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false
      throw isStreamsError(error) ? error : fileError(file, 'written', error)
    }
    // If the base manifest was removed meanwhile, another manifest with this number may have been
    // written and removed too.
    const before = await stat(this.#folder.path(fileOf(base.sequence))).catch(() => undefined)
    if (before === undefined) throw changedTooOften()
    return true
  }

  async #prune(last: number, kept?: number): Promise<void> {
    for (const number of await this.#numbers())
      if (number <= last - RETAINED && number !== kept)
        await rm(this.#folder.path(fileOf(number)), { force: true })
  }
}

/** Throws (`PERMISSIONS`) if others may write in a folder of the vault. */
export function checkFolders({ directory, permissions }: VaultFolder, generation?: number): void {
  const shares = generation === undefined ? [] : [folderOf(generation)]
  permissions.checkFolder(directory, [MANIFESTS_FOLDER, SECRETS_FOLDER, SHARES_FOLDER, ...shares])
}

function changedTooOften(): VaultError {
  return new VaultError('others change the vault all the time: try again', { isRetryable: true })
}

function fileOf(sequence: number): string {
  return `${MANIFESTS_FOLDER}/${sequence}.json`
}
