import { randomInt } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isStreamsError } from 'sluice/core'
import { codeOf, readText } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import type { ActLog } from './act-log.js'
import { createBatch } from './batch.js'
import { fileError, isAbsence, type VaultFolder } from './files.js'
import {
  HISTORY,
  MAX_MANIFEST_BYTES,
  type Manifest,
  readManifest,
  type SignedManifest,
  signManifest,
} from './manifest.js'
import { compare, type Seen } from './seen.js'
import type { Writer } from './writer.js'

/** The folder of the manifests. The one with the highest number is the vault's state. */
export const MANIFESTS_FOLDER = 'manifests'

/** What a change makes of a manifest. */
export type Change = Partial<Omit<Manifest, 'sequence' | 'history'>>

/** The manifests of a vault: any number of processes read and change them. */
export interface ManifestLog {
  /** The state now: the same object until it changes. Rejects (`ROLLBACK`) if it is older than one that was seen. */
  head(): Promise<SignedManifest>
  /** The last state before a generation that is still stored. */
  before(generation: number): Promise<SignedManifest | undefined>
  /**
   * Makes the next state of the state now, whole or not at all. `change` is called again where another process was first.
   */
  commit(
    writer: Writer,
    change: (base: SignedManifest) => Change | Promise<Change>,
  ): Promise<{ readonly base: SignedManifest; readonly next: SignedManifest }>
  /**
   * Makes a next state of the state now which processes accept that have seen changes up to `after` of another history. Rejects if another process has
   * made a change meanwhile, which is lost.
   */
  recover(writer: Writer, after: number): Promise<SignedManifest>
}

/** So many manifests stay: a writer that is further behind has to try again. */
const RETAINED = 16
const MAX_ATTEMPTS = 500

/** Writes the first manifest of a vault. */
export async function writeFirst(
  folder: VaultFolder,
  writer: Writer,
  first: Omit<Manifest, 'sequence' | 'history'>,
): Promise<void> {
  const { text } = signManifest({ sequence: 1, history: [], ...first }, writer)
  await folder.writeNew(fileOf(1), text)
}

/** The files of the manifests, each of which is written once. */
function createManifestFiles(folder: VaultFolder, writerKey: string) {
  async function numbers(): Promise<number[]> {
    try {
      const entries = await readdir(join(folder.directory, MANIFESTS_FOLDER))
      return entries.flatMap(entry => {
        const [, digits] = /^(\d{1,15})\.json$/.exec(entry) ?? []
        return digits === undefined ? [] : [Number(digits)]
      })
    } catch (error) {
      throw fileError(MANIFESTS_FOLDER, 'read', error)
    }
  }

  async function read(sequence: number): Promise<SignedManifest | undefined> {
    const file = fileOf(sequence)
    let text: string
    try {
      text = await readText(
        join(folder.directory, file),
        MAX_MANIFEST_BYTES,
        rule => new VaultError(`${file} ${rule}`),
        stats => folder.permissions.checkFile(file, stats, 'public'),
      )
    } catch (error) {
      // Others have made so many changes since that it was removed.
      if (isAbsence(error)) return undefined
      throw isStreamsError(error) ? error : fileError(file, 'read', error)
    }
    const manifest = readManifest(text.trimEnd(), writerKey, file)
    if (manifest.sequence !== sequence) throw new VaultError(`${file} is not that of its number`)
    return manifest
  }

  /** False where another process was first. */
  async function link(base: SignedManifest, next: SignedManifest): Promise<boolean> {
    try {
      await folder.writeNew(fileOf(next.sequence), next.text)
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false
      throw isStreamsError(error) ? error : fileError(fileOf(next.sequence), 'written', error)
    }
    // If the manifest before was removed, so may have been another one with this number.
    const before = await stat(join(folder.directory, fileOf(base.sequence))).catch(() => undefined)
    if (before === undefined) throw changedTooOften()
    return true
  }

  async function prune(last: number, kept?: number): Promise<void> {
    for (const number of await numbers())
      if (number <= last - RETAINED && number !== kept)
        await rm(join(folder.directory, fileOf(number)), { force: true })
  }

  return { numbers, read, link, prune }
}

/** Opens the manifests of a vault with this writer. */
export function createManifestLog(
  folder: VaultFolder,
  writerKey: string,
  seen: Seen,
  acts: Pick<ActLog, 'check' | 'record'> = { check: async () => {}, record: async () => {} },
): ManifestLog {
  const { numbers, read, link, prune } = createManifestFiles(folder, writerKey)
  let cached: SignedManifest | undefined

  /** Of all requests that are under way at once, so that they read the folder once. */
  const head = createBatch(readHead)

  async function readHead(): Promise<SignedManifest> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      // Before the listing: meanwhile others may see a newer state.
      const newest = await seen.newest()
      const highest = Math.max(0, ...(await numbers()))
      if (highest === 0) throw new VaultError(`${MANIFESTS_FOLDER} has no manifest`)
      const found = cached?.sequence === highest ? cached : await read(highest)
      if (found === undefined) continue
      if (found === cached) return found
      compare(newest, found, folder.directory)
      await seen.add(found)
      cached = found
      return found
    }
    throw changedTooOften()
  }

  async function before(generation: number): Promise<SignedManifest | undefined> {
    for (const sequence of (await numbers()).sort((one, other) => other - one)) {
      const found = await read(sequence)
      if (found !== undefined && found.generation !== generation) return found
    }
    return undefined
  }

  let committing: Promise<unknown> = Promise.resolve()

  async function commit(
    writer: Writer,
    change: (base: SignedManifest) => Change | Promise<Change>,
  ): Promise<{ readonly base: SignedManifest; readonly next: SignedManifest }> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const base = await head()
      await acts.check()
      const { digest, text: _, ...fields } = base
      const made = { ...fields, act: undefined, ...(await change(base)) }
      const next = signManifest(
        {
          ...made,
          sequence: base.sequence + 1,
          history: [digest, ...base.history].slice(0, HISTORY),
        },
        writer,
      )
      if (await link(base, next)) {
        cached = next
        // First of all: whatever fails from here on, the change was made.
        try {
          await acts.record(next)
        } finally {
          await seen.add(next)
        }
        // What an unsettled change may be taken back to stays, whatever is put meanwhile. What can't be read is no help.
        const kept =
          next.isUnsettled === true
            ? await before(next.generation).catch(() => undefined)
            : undefined
        await prune(next.sequence, kept?.sequence)
        return { base, next }
      }
      await sleep(randomInt(1, 20))
    }
    throw changedTooOften()
  }

  async function recover(writer: Writer, after: number): Promise<SignedManifest> {
    const base = await head()
    await acts.check()
    const { digest: _, text: __, ...fields } = base
    const next = signManifest(
      {
        ...fields,
        act: { type: 'recover', from: base.sequence },
        // Further ahead than a history reaches: it goes on with none that was seen.
        sequence: Math.max(base.sequence, after) + HISTORY + 1,
        history: Array.from({ length: HISTORY }, () => '0'.repeat(64)),
        // Holders keep shares of other generations until a resharing: a later backup may need them.
        isUnsettled: base.addresses === undefined ? undefined : true,
      },
      writer,
    )
    if (!(await link(base, next))) throw changedTooOften()
    cached = next
    await seen.add(next)
    // From now on no other process can go on with the state before.
    await rm(join(folder.directory, fileOf(base.sequence)), { force: true })
    const lost = (await numbers()).filter(each => each > base.sequence && each < next.sequence)
    await prune(next.sequence)
    await acts.record(next)
    if (lost.length > 0)
      throw new VaultError(
        `another process made change ${lost.join(', ')} meanwhile, which is lost: make it again`,
      )
    return next
  }

  /** One after another: those of one process need not compete. */
  function inOrder<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = committing.then(work)
    committing = done.catch(() => undefined)
    return done
  }

  return {
    head,
    before,
    commit: (writer, change) => inOrder(() => commit(writer, change)),
    recover: (writer, after) => inOrder(() => recover(writer, after)),
  }
}

function changedTooOften(): VaultError {
  return new VaultError('others change the vault all the time: try again', { isRetryable: true })
}

function fileOf(sequence: number): string {
  return `${MANIFESTS_FOLDER}/${sequence}.json`
}
