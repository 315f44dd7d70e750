import { mkdtempSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Target } from '@sluice/test-support/fuzz/fuzz.js'
import type { JSONValue } from '@sluice/test-support/fuzz/json-mutations.js'
import { mutateBytes } from '@sluice/test-support/fuzz/mutations.js'
import { assert, json, ofBytes } from '@sluice/test-support/fuzz/target.js'
import { boxKeys, createKeys, createPermissions } from 'sluice/internal'
import { readKeyFile } from '../../key-file.js'
import { parseObject, sealRequestJSON } from '../../sealed-message.js'
import { createVault } from '../../vault/create-vault.js'
import { VaultFolder } from '../../vault/files.js'
import { readWriter } from '../../vault/identity.js'
import { ManifestLog } from '../../vault/manifest-log.js'
import { openVault } from '../../vault/open-vault.js'
import { Holder } from '../../vault/process/holder.js'
import { HolderFiles } from '../../vault/process/holder-files.js'
import { signOrder } from '../../vault/process/order.js'
import { type HolderRequest, openHolderRequest } from '../../vault/process/protocol.js'
import { startVaultHolder } from '../../vault/process/start-holder.js'
import { RollbackState } from '../../vault/rollback.js'

/** What a holder is asked: by its callers, and in a resharing of its key. */
export async function vaultHolders(): Promise<readonly Target<never>[]> {
  const place = mkdtempSync(join(tmpdir(), 'sluice-fuzz-'))
  const caller = createKeys()
  const vault = await createVault(join(place, 'vault'), { holders: 1 })
  await vault.put({ key: 'key' }, 'value', { policy: 'anywhere' })
  const directory = join(place, 'holder')
  const trust = { writer: vault.writerKey, callers: [caller.publicKey] }
  const started = await startVaultHolder({ directory, trust })
  await vault.reshare({ addresses: [{ url: started.url, key: started.publicKey }] })
  await started.close()

  const permissions = createPermissions({})
  const keys = boxKeys(Buffer.from(readKeyFile(join(directory, 'holder.key')), 'hex'))
  const holder = await Holder.open(new HolderFiles(new VaultFolder(directory, permissions)), keys)
  const samples = await requestsOf(join(place, 'vault'), started.publicKey)
  const sealed = samples.map(sample =>
    sealRequestJSON(
      'N',
      JSON.stringify({ version: 1, replyTo: createKeys().publicKey, ...(sample as object) }),
      keys.publicKey,
      boxKeys(Buffer.from(caller.secretKey, 'hex')),
    ),
  )
  return [
    json(
      'holders of a vault: requests of a caller',
      samples,
      async text => {
        const request = parseObject(text)
        if (typeof request?.kind !== 'string') return undefined
        return holder.answer(request as HolderRequest, caller.publicKey)
      },
      { share: 0.2 },
    ),
    {
      name: 'holders of a vault: sealed requests',
      make: dice => mutateBytes(sealed, dice),
      read: bytes => openHolderRequest(bytes, keys),
      share: 0.1,
      check(result, input) {
        if (result === undefined) return
        const isWhole = sealed.some(each => Buffer.compare(each, input) === 0)
        assert(isWhole, 'opened only where nothing was changed')
      },
      ...ofBytes,
    } satisfies Target<Uint8Array>,
  ] as unknown as readonly Target<never>[]
}

/** A request of each kind, that the holder with this key grants. */
async function requestsOf(directory: string, key: string): Promise<readonly JSONValue[]> {
  const { writerKey, owner } = await openVault(directory)
  const permissions = createPermissions({})
  const folder = new VaultFolder(directory, permissions)
  const log = new ManifestLog(
    folder,
    writerKey,
    new RollbackState(undefined, permissions, writerKey),
  )
  const { text, sequence, digest, generation } = await log.head()
  const name = { owner, namespace: 'main', key: 'key' }
  const ciphertext = await (await openVault(directory)).ciphertext(name)
  const recipient = Buffer.from(createKeys().publicKey, 'hex').toString('base64')
  const release = { name, ciphertext, recipient, sequence, digest, generation }
  const order = { generation, threshold: 1, isFresh: false, receivers: [key] }
  const { id: _, ...signed } = signOrder(order, await readWriter(folder, writerKey))
  return [
    { kind: 'release', ...release },
    { kind: 'response', body: ciphertext, recipient, sequence, digest, generation },
    { kind: 'manifest', text },
    { kind: 'invite', ...signed, dealers: [key] },
    { kind: 'deal', ...signed, invitations: ['AAAA'] },
    { kind: 'accept', ...signed, dealings: ['{}'], sealed: ['AAAA'] },
  ]
}
