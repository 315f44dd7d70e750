import { randomBytes } from 'node:crypto'
import { jest } from '@jest/globals'
import type * as SealedBox from '../../../crypto/sealed-box.js'
import type * as Group from '../../../crypto/tdh2/group.js'
import type * as TDH2 from '../../../crypto/tdh2/index.js'
import type * as Files from '../../../local/files.js'
import type * as VaultFiles from '../../../local/vault/files.js'
import type * as ManifestFile from '../../../local/vault/manifest.js'
import type * as NodeFilesFile from '../../../local/vault/process/node-files.js'
import type * as OrderFile from '../../../local/vault/process/order.js'
import type * as Protocol from '../../../local/vault/process/protocol.js'
import type * as Remote from '../../../local/vault/process/remote-nodes.js'
import type * as Shares from '../../../local/vault/share-files.js'
import type * as WriterFile from '../../../local/vault/writer.js'
import { digestText } from './digest-text.js'
import { Disk } from './disk.js'
import { makeFastGroup } from './fast-group.js'

/** What guards a resharing, each of which can be taken out. */
export const MENDS = ['steps', 'refusal', 'proof', 'settling'] as const
export type Mend = (typeof MENDS)[number]

/** What the code under test runs on: everything but the protocol itself. */
export interface Ground {
  readonly disk: Disk
  draw: () => number
  ask: typeof Protocol.askNode
  out: Mend | undefined
}

/** One for all worlds: they run one after another. */
export const ground: Ground = {
  disk: new Disk(),
  draw: Math.random,
  ask: () => Promise.reject(new Error('no world runs')),
  out: undefined,
}

const { disk } = ground

jest.mock('../../../crypto/tdh2/group.js', () =>
  makeFastGroup(jest.requireActual<typeof Group>('../../../crypto/tdh2/group.js'), () =>
    ground.draw(),
  ),
)

// A box is open, and names who may open it: nobody in the model looks into that of another.
jest.mock('../../../crypto/sealed-box.js', () => {
  const { concat, isPublicKey, checkPublicKey } = jest.requireActual<typeof SealedBox>(
    '../../../crypto/sealed-box.js',
  )
  const open = (head: readonly Uint8Array[], boxed: Uint8Array): Uint8Array | undefined => {
    const start = Buffer.concat(head)
    return Buffer.compare(boxed.subarray(0, start.length), start) === 0
      ? boxed.slice(start.length)
      : undefined
  }
  const made: Partial<typeof SealedBox> = {
    concat,
    isPublicKey,
    checkPublicKey,
    boxKeys() {
      const key = randomBytes(32)
      key[31] = 5
      return { publicKey: key, secretKey: Uint8Array.from(key) }
    },
    seal: (message, recipient) => concat(recipient, message),
    openSealed: (sealed, { publicKey }) => open([publicKey], sealed),
    box: (message, recipient, { publicKey }) => concat(recipient, concat(publicKey, message)),
    openBox: (boxed, sender, { publicKey }) => open([publicKey, sender], boxed),
  }
  return made
})

// A signature is a digest: nobody in the model makes one for another.
jest.mock('../../../local/vault/writer.js', () => ({
  ...jest.requireActual<typeof WriterFile>('../../../local/vault/writer.js'),
  isSigned: (text: string, signature: string, key: string) => signature === digestText(text + key),
}))

jest.mock('../../../local/vault/share-files.js', () => {
  // Only now, as it has the group of above.
  const { parsePrivateShare } = jest.requireActual<typeof TDH2>('../../../crypto/tdh2/index.js')
  const isShareOf: typeof Shares.isShareOf = ({ hArray }, { index, v }) =>
    (hArray[index] as unknown as { v: bigint } | undefined)?.v === v
  const readShare: typeof Shares.readShare = async (folder, file, publicKey, index) => {
    const fields = await folder.read(file, 1024, 'secret')
    const share = parsePrivateShare(JSON.stringify(fields ?? {}))
    if (share.index !== index || !isShareOf(publicKey, share)) throw new Error('another share')
    return share
  }
  const actual = jest.requireActual<typeof Shares>('../../../local/vault/share-files.js')
  return { ...actual, isShareOf, readShare, removeOldShares: async () => undefined }
})

jest.mock('../../../local/vault/files.js', () => ({
  ...jest.requireActual<typeof VaultFiles>('../../../local/vault/files.js'),
  makeFolder: async () => undefined,
}))

jest.mock('../../../local/files.js', () => ({
  ...jest.requireActual<typeof Files>('../../../local/files.js'),
  syncFolder: async () => undefined,
  async readText(path: string) {
    const text = disk.read(path)
    if (text === undefined) throw Object.assign(new Error('ENOENT'), { code: 'ENOENT' })
    return text
  },
}))

jest.mock('node:fs/promises', () => ({
  ...jest.requireActual<object>('node:fs/promises'),
  readdir: async (folder: string) => disk.list(folder),
  rename: async (from: string, to: string) => disk.rename(from, to),
  rm: async (path: string) => disk.remove(path),
}))

jest.mock('../../../local/vault/process/protocol.js', () => ({
  ...jest.requireActual<typeof Protocol>('../../../local/vault/process/protocol.js'),
  askNode: (...given: Parameters<typeof Protocol.askNode>) => ground.ask(...given),
}))

jest.mock('../../../local/vault/process/order.js', () => {
  const actual = jest.requireActual<typeof OrderFile>('../../../local/vault/process/order.js')
  const checkStep: typeof OrderFile.checkStep = (...given) => {
    if (ground.out !== 'steps') actual.checkStep(...given)
  }
  return { ...actual, checkStep }
})

jest.mock('../../../local/vault/process/node-files.js', () => {
  const actual = jest.requireActual<typeof NodeFilesFile>(
    '../../../local/vault/process/node-files.js',
  )
  const createNodeFiles: typeof NodeFilesFile.createNodeFiles = folder => {
    const files = actual.createNodeFiles(folder)
    const adopt: typeof files.adopt = async (...given) =>
      (await files.adopt(...given)) || ground.out === 'refusal'
    return { ...files, adopt }
  }
  return { ...actual, createNodeFiles }
})

jest.mock('../../../local/vault/process/remote-nodes.js', () => {
  const actual = jest.requireActual<typeof Remote>('../../../local/vault/process/remote-nodes.js')
  const remoteReceivers: typeof Remote.remoteReceivers = (...given) =>
    actual.remoteReceivers(...given).map(each => ({
      ...each,
      prove: key => (ground.out === 'proof' ? Promise.resolve() : each.prove(key)),
    }))
  return { ...actual, remoteReceivers }
})

jest.mock('../../../local/vault/manifest.js', () => {
  const actual = jest.requireActual<typeof ManifestFile>('../../../local/vault/manifest.js')
  const signManifest: typeof ManifestFile.signManifest = ({ isUnsettled, ...manifest }, writer) =>
    actual.signManifest(ground.out === 'settling' ? manifest : { ...manifest, isUnsettled }, writer)
  return { ...actual, signManifest }
})
