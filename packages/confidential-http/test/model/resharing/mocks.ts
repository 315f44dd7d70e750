import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { jest } from '@jest/globals'
import type * as SealedBox from '@sluice/source/crypto/sealed-box.js'
import type * as Group from '@sluice/source/crypto/tdh2/group.js'
import type * as Files from '@sluice/source/platform/node/files.js'
import { transformSync } from 'esbuild'
import type * as Plugins from 'sluice/plugins/confidential-http'
import type * as TDH2 from 'sluice/tdh2'
import type * as VaultFiles from '../../../vault/files.js'
import type * as Identity from '../../../vault/identity.js'
import type * as Protocol from '../../../vault/process/protocol.js'
import type * as Shares from '../../../vault/share-files.js'
import { digestText } from './digest-text.js'
import { Disk } from './disk.js'
import { makeFastGroup } from './fast-group.js'
import { GUARDED_FILES, GUARDS } from './guards.js'

/** What the code under test runs on: everything but the protocol itself. */
export interface Ground {
  readonly disk: Disk
  draw: () => number
  ask: typeof Protocol.askHolder
  /** The guard that is taken out. */
  out: string | undefined
  /** The clock of all processes, in Unix milliseconds. */
  now: number
}

/** One for all worlds: they run one after another. */
export const ground: Ground = {
  disk: new Disk(),
  draw: Math.random,
  ask: () => Promise.reject(new Error('no world runs')),
  out: undefined,
  now: 0,
}

Date.now = () => ground.now++

const { disk } = ground

jest.mock('@sluice/source/crypto/tdh2/group.js', () =>
  makeFastGroup(jest.requireActual<typeof Group>('@sluice/source/crypto/tdh2/group.js'), () =>
    ground.draw(),
  ),
)

// A box is open, and names who may open it: nobody in the model looks into that of another.
jest.mock('@sluice/source/crypto/sealed-box.js', () => {
  const concat = (...parts: readonly Uint8Array[]) => new Uint8Array(Buffer.concat(parts))
  const { isPublicKey, checkBoxPublicKey } = jest.requireActual<typeof SealedBox>(
    '@sluice/source/crypto/sealed-box.js',
  )
  const open = (head: readonly Uint8Array[], boxed: Uint8Array): Uint8Array | undefined => {
    const start = Buffer.concat(head)
    return Buffer.compare(boxed.subarray(0, start.length), start) === 0
      ? boxed.slice(start.length)
      : undefined
  }
  const made: Partial<typeof SealedBox> = {
    isPublicKey,
    checkBoxPublicKey,
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
jest.mock('../../../vault/identity.js', () => ({
  ...jest.requireActual<typeof Identity>('../../../vault/identity.js'),
  isSigned: (text: string, signature: string, key: string) => signature === digestText(text + key),
}))

jest.mock('../../../vault/share-files.js', () => {
  // Only now, as it has the group of above.
  const { parsePrivateShare } = jest.requireActual<typeof TDH2>('sluice/tdh2')
  const { VaultError } = jest.requireActual<typeof Plugins>('sluice/plugins/confidential-http')
  const isShareOf: typeof Shares.isShareOf = ({ hArray }, { index, v }) =>
    (hArray[index] as unknown as { v: bigint } | undefined)?.v === v
  const readShare: typeof Shares.readShare = async (folder, file, publicKey, index) => {
    const fields = await folder.read(file, 1024, 'secret')
    if (fields === undefined) throw new VaultError(`${file} is missing`)
    const share = parsePrivateShare(JSON.stringify(fields))
    if (share.index !== index || !isShareOf(publicKey, share)) throw new Error('another share')
    return share
  }
  const actual = jest.requireActual<typeof Shares>('../../../vault/share-files.js')
  return { ...actual, isShareOf, readShare, removeOldShares: async () => undefined }
})

jest.mock('../../../vault/files.js', () => ({
  ...jest.requireActual<typeof VaultFiles>('../../../vault/files.js'),
  makeFolder: async () => undefined,
}))

jest.mock('@sluice/source/platform/node/files.js', () => ({
  ...jest.requireActual<typeof Files>('@sluice/source/platform/node/files.js'),
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

jest.mock('../../../vault/process/protocol.js', () => ({
  ...jest.requireActual<typeof Protocol>('../../../vault/process/protocol.js'),
  askHolder: (...given: Parameters<typeof Protocol.askHolder>) => ground.ask(...given),
}))

/** Compiles a file of the library so that each of its guards can be taken out while it runs. */
function loadGuarded(file: string): unknown {
  const path = join(__dirname, '../../../vault', file)
  let source = readFileSync(`${path}.ts`, 'utf8')
  for (const [name, [at, text, without, around = text]] of Object.entries(GUARDS)) {
    if (at !== file) continue
    if (source.split(around).length !== 2 || around.split(text).length !== 2)
      throw new Error(`${file} does not have the guard "${name}" once: ${around}`)
    const either = `isOut(${JSON.stringify(name)}) ? (${without}) : (${text})`
    // A statement that began with a bracket would go on with the line before.
    const isStatement = source.split('\n').some(line => line.trim() === text)
    const made = isStatement ? either : `(${either})`
    source = source.replace(around, () => around.replace(text, () => made))
  }
  const { code } = transformSync(source, {
    ...{ loader: 'ts', format: 'cjs', target: 'node20', sourcefile: `${path}.ts` },
    sourcemap: 'inline',
  })
  const module = { exports: {} }
  const load = (name: string): unknown =>
    require(name.startsWith('.') ? join(dirname(path), name.replace(/\.js$/, '')) : name)
  const isOut = (name: string): boolean => ground.out === name
  new Function('require', 'module', 'exports', 'isOut', code)(load, module, module.exports, isOut)
  return module.exports
}

for (const file of GUARDED_FILES) jest.mock(`../../../vault/${file}.js`, () => loadGuarded(file))
