import { type BoxKeys, checkName } from 'sluice/internal'
import { createEmbeddedHolder } from './embedded-holders.js'
import type { VaultFolder } from './files.js'
import { type SignedManifest, usableOf } from './manifest.js'
import type { ManifestLog } from './manifest-log.js'
import { createRemoteHolder, type HolderSource, sendNotice } from './process/remote-holders.js'
import type { SecretStore } from './secret-store.js'
import type { RespondingHolder, VaultState } from './vault.js'

/** Milliseconds between two attempts to reach dropped holders that could not be reached before. */
const DROPPED_INTERVAL = 60_000

/** The states of a vault. The same manifest gives the same object. */
export class VaultStates {
  readonly #folder: VaultFolder
  readonly #store: SecretStore
  readonly #log: ManifestLog
  readonly #caller: BoxKeys | undefined
  #latest: { readonly manifest: SignedManifest; readonly state: VaultState } | undefined
  /** The holders that have been reached since they were dropped. */
  readonly #reached = new Set<string>()
  /** When the notices were last sent to the other dropped holders. */
  #sentAt = Number.NEGATIVE_INFINITY

  /** Holders that are separate processes are asked in the name of `caller`. */
  constructor(folder: VaultFolder, store: SecretStore, log: ManifestLog, caller?: BoxKeys) {
    this.#folder = folder
    this.#store = store
    this.#log = log
    this.#caller = caller
  }

  /** The current state. */
  async head(): Promise<VaultState> {
    return this.of(await this.#log.head())
  }

  of(manifest: SignedManifest): VaultState {
    this.#sendToDropped(manifest)
    if (this.#latest?.manifest !== manifest)
      this.#latest = { manifest, state: this.#stateOf(manifest) }
    return this.#latest.state
  }

  #stateOf(manifest: SignedManifest): VaultState {
    const { sequence, generation, threshold, publicKey } = manifest
    const { ciphertext } = this.#sourceOf(manifest)
    const holders = this.#holdersOf(manifest)
    return {
      ...{ sequence, generation, threshold, publicKey, holders },
      ciphertext: async given => ciphertext(checkName(given)),
    }
  }

  #sourceOf(manifest: SignedManifest): HolderSource {
    return { manifest, ciphertext: name => this.#store.read(usableOf(manifest.secrets, name)) }
  }

  #holdersOf(manifest: SignedManifest): readonly RespondingHolder[] {
    const { generation, publicKey, addresses } = manifest
    if (addresses !== undefined) {
      const latest = async () => this.#sourceOf(await this.#log.head())
      const source = this.#sourceOf(manifest)
      return addresses.map((address, index) =>
        createRemoteHolder(index, address, this.#caller, source, latest),
      )
    }
    const { manifest: before, state } = this.#latest ?? {}
    if (state !== undefined && before?.generation === generation && before.publicKey === publicKey)
      return state.holders
    return publicKey.hArray.map((_, index) =>
      createEmbeddedHolder(index, this.#folder, manifest, async name =>
        (await this.head()).ciphertext(name),
      ),
    )
  }

  /**
   * Sends their notices to dropped holders that may be reachable again, so that they delete their
   * shares. Nobody waits for the result.
   */
  #sendToDropped(manifest: SignedManifest): void {
    const { dropped = [], isUnsettled, generation } = manifest
    const left = dropped.filter(({ key }) => !this.#reached.has(`${generation} ${key}`))
    const now = performance.now()
    if (left.length === 0 || isUnsettled === true || now < this.#sentAt + DROPPED_INTERVAL) return
    this.#sentAt = now
    for (const { notice, ...address } of left)
      if (notice !== undefined)
        sendNotice(address, notice).then(
          () => this.#reached.add(`${generation} ${address.key}`),
          () => undefined,
        )
  }
}
