import type { Log } from 'sluice/core'
import { checkNumber, ValidationError } from 'sluice/core'
import type { BoxKeys } from 'sluice/internal'
import { checkName, formatKey, formatName } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import { digestOf, readManifest, type SignedManifest } from '../manifest.js'
import { createShareMaker, type ShareMaker } from '../embedded-holder.js'
import { compare, rollback } from '../seen.js'
import { usableOf } from '../versions.js'
import { createHolderResharing } from './holder-resharing.js'
import type { HolderFiles, HolderTrust } from './holder-files.js'
import { bytesOf, type HolderRequest, textOf } from './protocol.js'

/** Answers what a holder is asked. */
export type Holder = (request: HolderRequest, asker: string) => Promise<object>

/** Kinds of requests, each with what answers it. */
type Kinds = Readonly<
  Record<string, (request: HolderRequest, trust: HolderTrust, asker: string) => Promise<object>>
>

/** Holds the share of a holder, and the newest manifest that it has seen. */
export async function createHolder(files: HolderFiles, keys: BoxKeys, log?: Log): Promise<Holder> {
  const ownKey = formatKey(keys.publicKey)
  let manifest = await files.readManifest((await files.readTrust()).writer)
  let maker: ShareMaker | undefined
  let changing: Promise<unknown> = Promise.resolve()

  /** One after another: each goes by what the one before has written. */
  function inOrder<Value>(work: () => Promise<Value>): Promise<Value> {
    const done = changing.then(work)
    changing = done.catch(() => undefined)
    return done
  }

  function checkExpiry({ generation, sharesExpireAt }: SignedManifest): void {
    if (isExpired(sharesExpireAt))
      throw new VaultError(
        `the shares of generation ${generation} expired at ${new Date(sharesExpireAt ?? 0).toISOString()}`,
      )
  }

  const indexIn = (of: SignedManifest): number =>
    (of.addresses ?? []).findIndex(({ key }) => key === ownKey)

  function known(): SignedManifest {
    if (manifest === undefined) throw new VaultError('the holder has seen no manifest yet')
    return manifest
  }

  /**
   * Goes by a newer manifest, and says whether the holder has its share of that generation. Old shares are deleted only where it has,
   * and all other new holders have theirs.
   */
  async function take(text: string, { writer }: HolderTrust): Promise<object> {
    const next = readManifest(text, writer, 'the manifest')
    compare(manifest, next, 'the vault')
    const { generation, publicKey, addresses, isUnsettled = false } = next
    const index = indexIn(next)
    const hasShare = index >= 0 && (await files.adopt(generation, publicKey, index))
    if (next.sequence !== manifest?.sequence) {
      const isOther = generation !== manifest?.generation
      await files.writeManifest(next)
      manifest = next
      if (isOther) {
        maker = undefined
        await files.removePending()
      }
    }
    // A vault that has its holders in its directory may be about to make this one a holder.
    const isDone = !isUnsettled && addresses !== undefined && (hasShare || index < 0)
    if (isDone) await files.removeOthers(hasShare ? generation : undefined)
    return { hasShare: hasShare || index < 0 }
  }

  /** Undefined where the asker has a newer manifest, which it must send. */
  function current(request: HolderRequest): SignedManifest | undefined {
    const { generation, digest } = request
    const sequence = checkNumber('sequence', request.sequence, { min: 0, whole: true })
    if (manifest === undefined || sequence > manifest.sequence) return undefined
    if (sequence < manifest.sequence)
      throw rollback(`change ${manifest.sequence} of the vault was seen, and this is ${sequence}`)
    if (digest !== manifest.digest)
      throw rollback(
        `the vault has another history than was seen: its change ${manifest.sequence} was another`,
      )
    if (generation !== manifest.generation)
      throw rollback(`generation ${manifest.generation} of the shares is in use`)
    return manifest
  }

  function makerOf({ generation, publicKey, ...others }: SignedManifest): ShareMaker {
    checkExpiry({ generation, publicKey, ...others })
    const index = indexIn({ generation, publicKey, ...others })
    if (index < 0) throw new VaultError('the vault has no holder with this key')
    maker ??= createShareMaker({
      publicKey,
      readShare: () => files.readShare(generation, publicKey, index),
    })
    return maker
  }

  const resharing = createHolderResharing({ files, keys, log: log ?? {}, known, indexIn })
  const kinds: Kinds = {
    manifest: (request, trust) => inOrder(() => take(textOf(request, 'text'), trust)),
    async release(request, trust, asker) {
      checkCaller(trust, asker)
      const now = current(request)
      if (now === undefined) return { needs: 'manifest' }
      const name = checkName(request.name as Parameters<typeof checkName>[0])
      const ciphertext = textOf(request, 'ciphertext')
      const { digest, version } = usableOf(now.secrets, name)
      if (digest !== digestOf(ciphertext))
        throw rollback(`${formatName(name)}: version ${version} is in use, and this is another`)
      const recipient = bytesOf(request, 'recipient')
      return { sealed: await makerOf(now).ofSecret(name, ciphertext, recipient) }
    },
    async response(request, trust, asker) {
      checkCaller(trust, asker)
      const now = current(request)
      if (now === undefined) return { needs: 'manifest' }
      const recipient = bytesOf(request, 'recipient')
      return { sealed: await makerOf(now).ofResponse(textOf(request, 'body'), recipient) }
    },
    invite: (request, trust) => inOrder(async () => resharing.invite(request, trust)),
    deal: (request, trust) => inOrder(() => resharing.deal(request, trust)),
    accept: (request, trust) => inOrder(() => resharing.accept(request, trust)),
    prove: (request, trust) => inOrder(() => resharing.prove(request, trust)),
  }

  return async function answer(request, asker) {
    const answerKind = Object.hasOwn(kinds, request.kind) ? kinds[request.kind] : undefined
    if (answerKind === undefined) throw new ValidationError('the holder knows no such request')
    return answerKind(request, await files.readTrust(), asker)
  }
}

/** Deletes the shares of a holder whose time is over, whether or not anybody has said so since. */
export async function expireShares(files: HolderFiles): Promise<void> {
  const manifest = await files.readManifest((await files.readTrust()).writer)
  if (manifest === undefined || !isExpired(manifest.sharesExpireAt)) return
  // The share of the next generation may be there, and its manifest not yet.
  await files.removeUpTo(manifest.generation)
}

function isExpired(time: number | undefined): boolean {
  return time !== undefined && time <= Date.now()
}

function checkCaller({ callers }: HolderTrust, asker: string): void {
  if (!callers.includes(asker)) throw new VaultError('the holder does not know this caller')
}
