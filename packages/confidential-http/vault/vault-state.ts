import type { BoxKeys } from 'sluice/internal'
import { checkName } from 'sluice/internal'
import type { SecretName } from 'sluice/plugins/confidential-http'
import type { PublicKey } from 'sluice/tdh2'
import type { VaultFolder } from './files.js'
import type { SignedManifest } from './manifest.js'
import { createEmbeddedHolder, type RespondingHolder } from './embedded-holder.js'
import { createRemoteHolder, type HolderSource, sendManifest } from './process/remote-holders.js'
import type { SecretStore } from './secret-store.js'
import { usableOf } from './versions.js'

/** A vault as it is between two changes. */
export interface VaultState {
  /** How many changes there were. */
  readonly sequence: number
  /** Which shares are in use: each resharing and each rotation makes another generation. */
  readonly generation: number
  /** How many holders it takes to release a secret. */
  readonly threshold: number
  /** The key that secrets are encrypted with. */
  readonly publicKey: PublicKey
  /** The holders, each with a share of the key, by index. */
  readonly holders: readonly RespondingHolder[]
  /** The ciphertext of a secret's newest version. Rejects if there is none, or it has expired. */
  ciphertext(name: SecretName): Promise<string>
}

/** Milliseconds between two tries to reach a holder that was dropped while it was away. */
const DROPPED_INTERVAL = 60_000

/** Makes the states of a vault, the same one for the same manifest. */
export function createStates(
  folder: VaultFolder,
  store: SecretStore,
  ciphertextNow: (name: SecretName) => Promise<string>,
  head: () => Promise<SignedManifest>,
  caller: BoxKeys | undefined,
): (manifest: SignedManifest) => VaultState {
  let latest: { readonly manifest: SignedManifest; readonly state: VaultState } | undefined

  const sourceOf = (manifest: SignedManifest): HolderSource => ({
    manifest,
    ciphertext: name => store.read(usableOf(manifest.secrets, name)),
  })

  function stateOf(manifest: SignedManifest): VaultState {
    const { sequence, generation, threshold, publicKey } = manifest
    const source = sourceOf(manifest)
    const { addresses } = manifest
    const isSameKey =
      latest?.manifest.generation === generation && latest.manifest.publicKey === publicKey
    const makeHolder = (index: number): RespondingHolder =>
      createEmbeddedHolder(index, folder, { generation, publicKey }, ciphertextNow)
    const holders =
      addresses !== undefined
        ? addresses.map((address, index) =>
            createRemoteHolder(index, address, caller, source, async () => sourceOf(await head())),
          )
        : isSameKey && latest !== undefined
          ? latest.state.holders
          : publicKey.hArray.map((_, index) => makeHolder(index))
    const state: VaultState = {
      sequence,
      generation,
      threshold,
      publicKey,
      holders,
      ciphertext: async given => source.ciphertext(checkName(given)),
    }
    return state
  }

  /** Holders that have been reached since they were dropped, and when the others were asked last. */
  const reached = new Set<string>()
  let sentAt = Number.NEGATIVE_INFINITY

  /** Sends the manifest to dropped holders that come back: they delete their shares. Nobody waits for that. */
  function sendToDropped(manifest: SignedManifest): void {
    const { dropped = [], isUnsettled } = manifest
    const left = dropped.filter(({ key }) => !reached.has(`${manifest.generation} ${key}`))
    const now = performance.now()
    if (left.length === 0 || isUnsettled === true || now < sentAt + DROPPED_INTERVAL) return
    sentAt = now
    for (const address of left)
      sendManifest(address, manifest).then(
        () => reached.add(`${manifest.generation} ${address.key}`),
        () => undefined,
      )
  }

  return function toState(manifest) {
    sendToDropped(manifest)
    if (latest?.manifest !== manifest) latest = { manifest, state: stateOf(manifest) }
    return latest.state
  }
}
