import { setImmediate as nextTick } from 'node:timers/promises'
import { createRandom, type Random } from '@sluice/test-support/random.js'
import { type BoxKeys, boxKeys, formatKey, type Permissions } from 'sluice/internal'
import { VaultError } from 'sluice/plugins/confidential-http'
import {
  combineSubShares,
  encrypt,
  generateKeys,
  type PrivateShare,
  type PublicKey,
  parsePrivateShare,
} from 'sluice/tdh2'
import { openJSON, toJSON } from '../../../sealed-message.js'
import { KeyChanger } from '../../../vault/change-key.js'
import { VaultFolder } from '../../../vault/files.js'
import type { Writer } from '../../../vault/identity.js'
import {
  HISTORY,
  type HolderAddress,
  type SignedManifest,
  signManifest,
} from '../../../vault/manifest.js'
import type { ManifestLog } from '../../../vault/manifest-log.js'
import { expireShares, Holder } from '../../../vault/process/holder.js'
import { HolderFiles } from '../../../vault/process/holder-files.js'
import { PROOF_LABEL } from '../../../vault/process/holder-resharing.js'
import { type Order, signOrder, signStep } from '../../../vault/process/order.js'
import type { HolderRequest } from '../../../vault/process/protocol.js'
import { sealDealing } from '../../../vault/resharing.js'
import type { SecretStore } from '../../../vault/secret-store.js'
import type { VaultStates } from '../../../vault/vault-state.js'
import { digestText } from './digest-text.js'
import { Crash } from './disk.js'
import { ground } from './mocks.js'

type Fields = Readonly<Record<string, unknown>>

/** A message on its way to a holder. */
interface Message {
  readonly holder: ModelHolder
  readonly request: HolderRequest
  readonly done: (answer: Fields) => void
  readonly failed: (error: Error) => void
}

/** Keys are dear to make: all worlds share them. */
const KEYS: readonly BoxKeys[] = Array.from({ length: 7 }, () => boxKeys())
const WRITER_KEY = 'aa'.repeat(32)
const writer: Writer = { publicKey: WRITER_KEY, sign: text => digestText(text + WRITER_KEY) }

const noPermissions: Permissions = {
  checkFile: () => undefined,
  checkFolder: () => undefined,
  checkParents: () => undefined,
}

/** A folder on the disk of the world. */
class DiskFolder extends VaultFolder {
  override async readText(file: string): Promise<string | undefined> {
    return ground.disk.read(this.path(file))
  }

  override async write(file: string, text: string): Promise<void> {
    ground.disk.write(this.path(file), text)
  }

  override writeNew(file: string, text: string): Promise<void> {
    return this.write(file, text)
  }
}

class ModelHolder {
  readonly address: HolderAddress
  readonly directory: string
  isMalicious = false
  holder: Holder | undefined
  /** It is to be believed to have a share, and stores none. */
  hasStrategy = false
  /** Deletes what has expired, as it does from time to time. */
  expire: () => Promise<void> = async () => undefined

  readonly at: number
  readonly keys: BoxKeys

  constructor(at: number, keys: BoxKeys) {
    this.at = at
    this.keys = keys
    this.address = { url: `http://holder-${at}`, key: formatKey(keys.publicKey) }
    this.directory = `/holder-${at}`
  }

  async start(): Promise<void> {
    const files = new HolderFiles(new DiskFolder(this.directory, noPermissions))
    this.expire = () => expireShares(files)
    await this.expire()
    this.holder = await Holder.open(files, this.keys)
  }
}

/** The result of one change of the key. */
interface Outcome {
  readonly what: string
  readonly text: string
  readonly isDone: boolean
  readonly hadFaults: boolean
}

/**
 * A writer that reshares and rotates a key among holders, some of which are malicious, over a network that loses, repeats and reorders
 * messages, while processes end and disks lose what was written. The writer's code and the holders' is that of the library.
 */
export class World {
  readonly story: string[] = []
  readonly broken: string[] = []
  private readonly random: Random
  private readonly holders: readonly ModelHolder[]
  private readonly messages: Message[] = []
  /** All requests so far, to be repeated. */
  private readonly sent: { readonly holder: ModelHolder; readonly request: HolderRequest }[] = []
  /** What malicious holders have seen: orders, and what was answered to them. */
  private readonly seen: Fields[] = []
  private readonly invitations = new Map<string, string[]>()
  private manifests: SignedManifest[] = []
  private isCrashed = false
  private hadFaults = false
  private readonly faults: {
    readonly lossy: number
    readonly crashes: number
    readonly disks: number
    readonly restores: number
  }
  /** Malicious holders that have said that they accept, and have stored nothing. */
  private readonly empty = new Set<ModelHolder>()
  private holdersInUse: readonly ModelHolder[] = []
  private hasLostShares = false
  /** The holders that were put back to an earlier state, each with the number of the change in which it was. */
  private readonly restored = new Map<ModelHolder, number>()
  private readonly snapshots: {
    readonly holder: ModelHolder
    readonly files: ReadonlyMap<string, string>
  }[] = []
  private changes = 0
  private isNewGeneration = true
  /** The change that is under way. */
  private planned:
    | { readonly inUse: readonly ModelHolder[]; readonly threshold: number }
    | undefined
  /** The keys that honest holders have invited dealers to seal to. */
  private readonly honestKeys = new Set<string>()
  /** Malicious holders have the writer's key: all that holds is that they don't get the secret. */
  private readonly isStolen: boolean
  /** The first generation is in the vault's directory. */
  private readonly isEmbedded: boolean
  private readonly shareLifetime: number | undefined

  constructor(seed: number) {
    this.random = createRandom(seed)
    ground.draw = this.random.next
    const { random } = this
    this.holders = KEYS.slice(0, random.pick(3, 6)).map((keys, at) => new ModelHolder(at, keys))
    const isFaulty = random.chance(0.6)
    this.isStolen = random.chance(0.15)
    this.isEmbedded = !this.isStolen && random.chance(0.2)
    this.shareLifetime = random.chance(0.25) ? DAY : undefined
    this.faults = {
      lossy: isFaulty && random.chance(0.5) ? 0.08 : 0,
      crashes: isFaulty && random.chance(0.5) ? 0.03 : 0,
      disks: isFaulty && this.shareLifetime === undefined && random.chance(0.4) ? 0.2 : 0,
      restores: isFaulty && random.chance(0.3) ? 0.02 : 0,
    }
  }

  private say(line: string): void {
    this.story.push(line)
  }

  async run(): Promise<void> {
    const { random } = this
    ground.disk.files.clear()
    ground.now = 1.8e12
    ground.disk.onOperation = () => undefined
    ground.ask = (address, _keys, request) => this.send(address, request)
    const count = random.pick(2, Math.min(5, this.holders.length))
    const threshold = random.pick(1, 10) === 1 ? count : random.pick(2, count)
    await this.begin(this.holders.slice(0, count), threshold)
    // As many malicious holders as the vault is made for, of those that are to be holders at any time.
    const most = Math.max(0, Math.min(count - threshold, random.pick(0, 3)))
    for (let made = 0; made < most; made++) random.of(this.holders).isMalicious = true
    if (this.isStolen) random.of(this.holders).isMalicious = true
    const liars = this.holders.filter(each => each.isMalicious)
    this.say(`${count} of ${this.holders.length} holders, threshold ${threshold}`)
    this.say(`malicious: ${liars.map(({ at }) => at).join(', ')}; ${JSON.stringify(this.faults)}`)
    const changes = random.chance(0.15) ? random.pick(4, 8) : random.pick(1, 3)
    for (let change = 0; change < changes; change++) {
      await this.passTime()
      this.checkHeld()
      await this.change()
    }
    await this.heal()
    if (this.isStolen) return
    // Which shares are lost, the next change finds.
    if (!(this.hasLostShares && this.head.isUnsettled)) this.check()
    await this.changeWithoutLiars()
  }

  /** Less time than the shares have. The clock may be put back. */
  private async passTime(): Promise<void> {
    const { sharesExpireAt, isUnsettled } = this.head
    if (sharesExpireAt !== undefined)
      ground.now += Math.max(
        0,
        Math.floor((sharesExpireAt - ground.now) * this.random.next() * 0.8),
      )
    // Holders keep the latest orders of the generation in use: there must be none of before.
    else if (isUnsettled !== true && this.isNewGeneration && this.random.chance(0.3))
      ground.now -= 3_600_000
    for (const holder of this.holders) if (!holder.isMalicious) await holder.expire()
  }

  /** Whatever was before: enough honest holders can go on without the others. */
  private async changeWithoutLiars(): Promise<void> {
    const honest = this.holders.filter(each => !each.isMalicious)
    if (honest.length < 2 || this.broken.length > 0) return
    this.say('the writer is to go on without the liars')
    this.lowerThresholds()
    const addresses = honest.map(({ address }) => address)
    const { text, isDone } = await this.drive(
      outcomeOf(this.keys().reshare({ addresses, threshold: 2 })),
    )
    if (!isDone) this.broken.push(`honest holders alone can't go on: ${text}`)
    await this.heal()
    this.check()
  }

  /** The holders have the first generation. */
  private async begin(holders: readonly ModelHolder[], threshold: number): Promise<void> {
    const { publicKey, shares } = generateKeys({ threshold, nodes: holders.length })
    const { isEmbedded } = this
    const manifest = signManifest(
      {
        ...{ sequence: 1, history: [], generation: 1, threshold, publicKey, secrets: [] },
        ...(isEmbedded ? {} : { addresses: holders.map(({ address }) => address) }),
      },
      writer,
    )
    this.manifests = [manifest]
    this.lowerThresholds(this.isStolen ? threshold : 1)
    for (const [at, holder] of holders.entries()) {
      const { formatPrivateShare } = await import('sluice/tdh2')
      const share = formatPrivateShare(shares[at] as PrivateShare)
      ground.disk.write(
        isEmbedded ? `/vault/shares/1/${at}.json` : `${holder.directory}/shares/1.json`,
        share,
      )
    }
    for (const holder of this.holders) {
      await holder.start()
      if (!isEmbedded) await holder.holder?.answer({ kind: 'manifest', text: manifest.text }, '')
    }
    this.holdersInUse = holders
  }

  /** The operators let their holders take part in any threshold. */
  private lowerThresholds(minThreshold = 1): void {
    const trust = {
      ...{ writer: WRITER_KEY, callers: [], minThreshold },
      peers: this.holders.map(({ address }) => address.key),
    }
    for (const holder of this.holders)
      ground.disk.write(`${holder.directory}/holder.json`, JSON.stringify(trust))
  }

  private get head(): SignedManifest {
    return this.manifests.at(-1) as SignedManifest
  }

  private keys(): KeyChanger {
    const world = this
    const stop = (): void => {
      if (world.isCrashed) throw new Crash('the writer has ended')
    }
    const folder = new DiskFolder('/vault', noPermissions)
    const store = { removeDropped: async () => undefined } as unknown as SecretStore
    const states = {
      of: () => {
        throw new Error('the model has no secrets')
      },
    } as unknown as VaultStates
    const log: Pick<ManifestLog, 'head' | 'before' | 'commit'> = {
      async head() {
        stop()
        return world.head
      },
      async before(generation) {
        return world.manifests.findLast(each => each.generation !== generation)
      },
      async commit(_writer, change) {
        stop()
        const base = world.head
        const { digest, text: _, ...fields } = base
        const made = { ...fields, ...(await change(base)) }
        world.maybeCrash('before a commit')
        stop()
        const history = [digest, ...base.history].slice(0, HISTORY)
        const next = signManifest({ ...made, sequence: base.sequence + 1, history }, writer)
        world.manifests.push(next)
        world.say(
          `commits ${next.sequence}: generation ${next.generation}, threshold ${next.threshold}${next.isUnsettled ? ', unsettled' : ''}`,
        )
        world.maybeCrash('after a commit')
        stop()
        return { base, next }
      },
    }
    return new KeyChanger(folder, log as ManifestLog, store, states, writer)
  }

  private maybeCrash(when: string): void {
    if (!this.random.chance(this.faults.crashes)) return
    this.isCrashed = true
    this.hadFaults = true
    this.say(`the writer ends ${when}`)
  }

  /** One change of the key, by a writer that may end in its midst. */
  private async change(): Promise<void> {
    const { random } = this
    this.changes++
    this.isCrashed = false
    this.hadFaults = this.restored.size > 0 || this.hasLostShares
    this.takeSnapshots()
    for (const holder of this.holders) holder.hasStrategy = holder.isMalicious && random.chance(0.2)
    const generation = this.head.generation
    const isFresh = this.head.addresses !== undefined && random.chance(0.35)
    const others = this.holders.filter(() => random.chance(0.75))
    const next = isFresh || random.chance(0.4) || others.length < 2 ? undefined : others
    const inUse = next ?? this.holdersInUse
    const bad = inUse.filter(each => each.isMalicious).length
    // A threshold that so many malicious holders cannot keep from being reached, nor reach.
    const threshold = Math.max(
      Math.min(2, inUse.length),
      Math.min(inUse.length - bad, random.pick(1, 4)),
    )
    if (threshold > inUse.length - bad || (this.isStolen && threshold < this.head.threshold)) return
    const what = isFresh ? 'rotate' : `reshare to ${inUse.map(({ at }) => at).join(', ')}`
    this.say(`the writer is to ${what}${isFresh ? '' : `, threshold ${threshold}`}`)
    if (!this.isStolen) this.lowerThresholds()
    this.planned = { inUse, threshold: isFresh ? this.head.threshold : threshold }
    const addresses = inUse.map(({ address }) => address)
    const { shareLifetime = 0 } = this
    const options = { addresses, threshold, shareLifetime }
    const work = outcomeOf(isFresh ? this.keys().rotate() : this.keys().reshare(options))
    const isCompeting = random.chance(0.1)
    if (isCompeting) this.say('and so is another')
    const other = isCompeting ? outcomeOf(this.keys().reshare(options)) : undefined
    const outcome = await this.drive(Promise.all([work, other]).then(([first]) => first))
    // Each of the two stands in the way of the other.
    if (isCompeting) this.hadFaults = true
    this.say(`${outcome.isDone ? 'done' : 'refused'}: ${outcome.text}`)
    if (this.head.generation !== generation && !isFresh) this.holdersInUse = inUse
    if (outcome.isDone && this.head.isUnsettled !== true)
      for (const [holder, change] of this.restored)
        if (change < this.changes) this.restored.delete(holder)
    this.planned = undefined
    this.isNewGeneration = this.head.generation > generation
    if (!this.isStolen && !isCompeting)
      this.checkNames({ what, ...outcome, hadFaults: this.hadFaults }, inUse)
    this.empty.clear()
  }

  private takeSnapshots(): void {
    for (const holder of this.holders)
      if (this.faults.restores > 0 && !holder.isMalicious && this.random.chance(0.5))
        this.snapshots.push({ holder, files: ground.disk.snapshot(holder.directory) })
  }

  /** A holder is put back to an earlier state of its disk, where as many others as it takes are left. */
  private async restore(): Promise<void> {
    if (this.snapshots.length === 0) return
    const { holder, files } = this.random.of(this.snapshots)
    const { addresses = [], threshold, generation, isUnsettled } = this.head
    const before = this.manifests.findLast(each => each.generation !== generation)
    const kept = [
      { urls: addresses.map(({ url }) => url), threshold },
      ...(isUnsettled !== true || before === undefined
        ? []
        : [{ urls: (before.addresses ?? []).map(({ url }) => url), threshold: before.threshold }]),
      ...(this.planned === undefined
        ? []
        : [{ ...this.planned, urls: this.planned.inUse.map(({ address }) => address.url) }]),
    ]
    const isWell = (each: ModelHolder): boolean =>
      each !== holder && !each.isMalicious && !this.restored.has(each)
    for (const { urls, threshold: least } of kept) {
      const well = this.holders.filter(each => urls.includes(each.address.url) && isWell(each))
      if (urls.length > 0 && well.length < least) return
    }
    this.say(`the disk of ${holder.at} is put back`)
    this.hadFaults = true
    this.restored.set(holder, this.changes)
    ground.disk.restore(holder.directory, files)
    await holder.start()
  }

  /** Somebody puts a secret: the vault changes, and its key does not. */
  private async put(): Promise<void> {
    const { digest, text: _, ...fields } = this.head
    const history = [digest, ...fields.history].slice(0, HISTORY)
    const next = signManifest({ ...fields, sequence: fields.sequence + 1, history }, writer)
    this.manifests.push(next)
    this.say(`commits ${next.sequence}: a secret was put`)
    for (const holder of this.holders)
      if (this.random.chance(0.5))
        await this.deliver(holder, { kind: 'manifest', text: next.text }).catch(() => undefined)
  }

  private send(address: { readonly url: string }, request: HolderRequest): Promise<Fields> {
    const holder = this.holders.find(each => each.address.url === address.url) as ModelHolder
    if (request.kind === 'manifest') this.checkReader(holder, String(request.text))
    return new Promise((done, failed) => {
      const copy = JSON.parse(toJSON(request)) as HolderRequest
      this.messages.push({ holder, request: copy, done, failed })
    })
  }

  /** A manifest names secrets and hosts: the writer sends it to no dropped holder, unless to make it one again. */
  private checkReader(holder: ModelHolder, text: string): void {
    const { dropped = [] } = JSON.parse(text).body as Pick<SignedManifest, 'dropped'>
    const isDropped = dropped.some(({ key }) => key === holder.address.key)
    if (isDropped && this.planned?.inUse.includes(holder) !== true)
      this.broken.push(`holder ${holder.at} was dropped, and gets a manifest`)
  }

  /** Delivers messages in any order, and does what an adversary may do in between, until the work is over. */
  private async drive<Value>(work: Promise<Value>): Promise<Value> {
    let value: { readonly is: Value } | undefined
    void work.then(is => {
      value = { is }
    })
    for (;;) {
      await nextTick()
      if (value !== undefined && this.messages.length === 0) return value.is
      if (this.messages.length === 0) continue
      if (this.isCrashed) {
        for (const { failed } of this.messages.splice(0)) failed(new Crash('the writer has ended'))
        continue
      }
      await this.step()
    }
  }

  private async step(): Promise<void> {
    const { random, faults } = this
    if (this.holders.some(each => each.isMalicious) && random.chance(0.35)) await this.attack()
    if (random.chance(0.1)) await this.repeat()
    if (random.chance(0.02)) await this.put()
    if (random.chance(faults.restores)) await this.restore()
    const [message] = this.messages.splice(random.pick(0, this.messages.length - 1), 1)
    const { holder, request, done, failed } = message as Message
    const unreached = new VaultError('it could not be reached', { isRetryable: true })
    if (random.chance(faults.lossy)) {
      this.hadFaults = true
      this.say(`${request.kind} to ${holder.at} is lost`)
      return failed(unreached)
    }
    this.maybeCrash('in the midst')
    const lie = holder.isMalicious ? await this.lie(holder, request) : undefined
    if (lie !== undefined) {
      this.say(`${request.kind} to ${holder.at}: it lies: ${JSON.stringify(lie).slice(0, 100)}`)
      const code = random.chance(0.5) ? ({ code: 'ROLLBACK' } as const) : {}
      return 'failure' in lie ? failed(new VaultError(String(lie.failure), code)) : done(lie)
    }
    try {
      let answer = await this.deliver(holder, request)
      // The connection was closed before the answer came, so the same request is sent again.
      if (random.chance(0.05)) answer = await this.deliver(holder, request)
      if (random.chance(faults.lossy)) {
        this.hadFaults = true
        this.say(`${request.kind} to ${holder.at}: the answer is lost`)
        return failed(unreached)
      }
      // In a later attempt it has stored its share after all.
      if (request.kind === 'accept') this.empty.delete(holder)
      done(answer)
    } catch (error) {
      failed(error instanceof Crash ? unreached : (error as Error))
    }
    await this.loseShare(holder, request)
  }

  /** Gives a holder a request; it may end in the midst of it, and starts anew. */
  private async deliver(holder: ModelHolder, request: HolderRequest): Promise<Fields> {
    this.sent.push({ holder, request })
    if (holder.isMalicious) this.seen.push(request)
    const willEnd = this.random.chance(this.faults.crashes)
    let left = this.random.pick(0, 6)
    ground.disk.onOperation = () => {
      if (willEnd && left-- === 0) throw new Crash('the holder has ended')
    }
    try {
      const answer = await holder.holder?.answer(request, '')
      this.say(`${request.kind} to ${holder.at}: ${JSON.stringify(answer).slice(0, 40)}`)
      const fields = JSON.parse(toJSON(answer ?? {}))
      if (!holder.isMalicious) this.checkSecrecy(holder, request, fields)
      return fields
    } catch (error) {
      this.say(`${request.kind} to ${holder.at}: ${(error as Error).message}`)
      if (!(error instanceof Crash)) throw error
      this.hadFaults = true
      ground.disk.onOperation = () => undefined
      await holder.start()
      throw error
    } finally {
      ground.disk.onOperation = () => undefined
    }
  }

  /** An honest holder deals to no more keys of malicious ones than they can have. */
  private checkSecrecy(holder: ModelHolder, request: HolderRequest, answer: Fields): void {
    const liars = this.holders.filter(each => each.isMalicious).length
    if (request.kind === 'invite')
      for (const boxed of answer.invitations as string[])
        this.honestKeys.add(JSON.parse(Buffer.from(boxed, 'base64').subarray(65).toString()).key)
    if (request.kind === 'deal' && answer.sealed !== undefined) {
      const { threshold, generation } = orderIn(request)
      const dealt = this.manifests.find(each => each.generation === generation)
      // So many have the secret by their own shares.
      if (dealt === undefined || liars >= dealt.threshold) return
      // The writer itself wants it so.
      if (!this.isStolen && liars >= threshold) return
      const known = (answer.sealed as string[]).filter(
        each => !this.honestKeys.has(Buffer.from(each, 'base64').subarray(0, 32).toString('hex')),
      ).length
      if (known >= threshold)
        this.broken.push(`holder ${holder.at} has dealt its share to ${known} keys of liars`)
    }
    if (request.kind === 'prove' && request.isSecret === true)
      this.broken.push(`holder ${holder.at} has given its part of a secret to whoever asked`)
  }

  /** A disk loses the share that was written last, once it was shown; of so many holders that the others do not suffice, at times. */
  private async loseShare(holder: ModelHolder, { kind }: HolderRequest): Promise<void> {
    const { random, faults } = this
    if (holder.isMalicious || kind !== 'prove' || !random.chance(faults.disks)) return
    for (const path of [...ground.disk.files.keys()])
      if (path.startsWith(`${holder.directory}/shares/pending-`)) {
        ground.disk.files.delete(path)
        this.hadFaults = true
        this.hasLostShares = true
        this.say(`the disk of ${holder.at} loses its new share`)
      }
    await holder.start()
  }

  /** Sends a request of before once more. */
  private async repeat(): Promise<void> {
    if (this.sent.length === 0) return
    const { random, sent } = this
    const { holder, request } = random.of(random.chance(0.5) ? sent : sent.slice(-12))
    // A malicious holder passes the notice that it has got on to others.
    const to = request.kind === 'notice' ? random.of(this.holders) : holder
    await this.deliver(to, request).catch(() => undefined)
  }

  /** What a malicious holder answers in place of what it is asked; undefined where it does as it should. */
  private async lie(holder: ModelHolder, request: HolderRequest): Promise<Fields | undefined> {
    const { random } = this
    this.seen.push(request)
    const { kind } = request
    if (holder.hasStrategy) return this.pretend(holder, request)
    if (random.chance(0.6)) return undefined
    if (random.chance(0.2)) return { failure: 'no' }
    if (kind === 'invite') {
      const { invitations } = await this.truth(holder, request)
      if (invitations === undefined) return undefined
      return { invitations: this.spoil(invitations as string[]) }
    }
    if (kind === 'accept') {
      if (random.chance(0.5)) {
        this.empty.add(holder)
        return { complaints: [] }
      }
      const dealers = (request.dealings as string[]).map(each => JSON.parse(each).Index as number)
      return { complaints: [...dealers, 40].filter(() => random.chance(0.4)) }
    }
    if (kind === 'deal') return this.lieInDealing(holder, request)
    if (kind === 'prove') {
      const other = random.of(this.holders.filter(each => !each.isMalicious))
      return random.chance(0.5) ? { share: '{}' } : this.truth(other, request)
    }
    return ['manifest', 'notice'].includes(kind) ? { hasShare: random.chance(0.8) } : undefined
  }

  /** Accepts nothing, and shows the share of another. */
  private async pretend(holder: ModelHolder, request: HolderRequest): Promise<Fields | undefined> {
    const { random } = this
    const { kind } = request
    if (kind === 'accept') {
      this.empty.add(holder)
      return { complaints: [] }
    }
    if (kind === 'manifest') return { hasShare: true }
    if (kind !== 'prove') return undefined
    const others = this.holders.filter(
      each => !each.isMalicious && orderIn(request).receivers.includes(each.address.key),
    )
    if (others.length === 0) return undefined
    const { share } = await this.truth(random.of(others), request)
    if (share === undefined || random.chance(0.5)) return { share }
    const index = orderIn(request).receivers.indexOf(holder.address.key)
    return { share: JSON.stringify({ ...JSON.parse(String(share)), Index: index }) }
  }

  /** What a holder would answer. */
  private truth(holder: ModelHolder, request: HolderRequest): Promise<Fields> {
    return this.deliver(holder, request).catch(() => ({}))
  }

  /** Some texts are missing, of another place, or nonsense. */
  private spoil(texts: readonly string[]): string[] {
    const { random } = this
    if (random.chance(0.2)) return texts.slice(1)
    return texts.map(each =>
      random.chance(0.5) ? each : random.chance(0.5) ? random.of(texts) : 'AAAA',
    )
  }

  /** A dealing that is wrong for all, or for some, or none and a complaint. */
  private async lieInDealing(
    holder: ModelHolder,
    request: HolderRequest,
  ): Promise<Fields | undefined> {
    const { random } = this
    if (random.chance(0.2))
      return { complaints: [random.pick(0, 5)].filter(() => random.chance(0.8)) }
    const known = this.seen.filter(each => each.order === request.order && each.dealt !== undefined)
    if (random.chance(0.15) && known.length > 0) return random.of(known).dealt as Fields
    const { dealing, sealed } = await this.truth(holder, request)
    if (dealing === undefined) return undefined
    const index = JSON.parse(String(dealing)).Index as number
    const other = this.falseDealing(holder, request, index)
    if (other === undefined || random.chance(0.3))
      return { dealing, sealed: this.spoil(sealed as string[]) }
    if (random.chance(0.4)) return other
    // What is not of these commitments.
    if (random.chance(0.5)) return { dealing, sealed: other.sealed }
    // To each what is for another: the dealer knows what it has dealt.
    const turned = other.sealed.slice(1).concat(other.sealed.slice(0, 1))
    return {
      dealing: other.dealing,
      sealed: turned.map((each, at) => this.sealAgain(each, other.sealed[at] as string)),
    }
  }

  /** The contents of one sealed box, sealed as another: in the model a box begins with who may open it. */
  private sealAgain(content: string, head: string): string {
    const [one, other] = [content, head].map(each => Buffer.from(each, 'base64'))
    return Buffer.concat([
      (other as Buffer).subarray(0, 32),
      (one as Buffer).subarray(32),
    ]).toString('base64')
  }

  /** A dealing of another secret, at times of another length or in the name of another. */
  private falseDealing(
    { keys, address }: ModelHolder,
    request: HolderRequest,
    index: number,
  ): { readonly dealing: string; readonly sealed: string[] } | undefined {
    const { random } = this
    const { threshold, receivers } = orderIn(request)
    const recipients = receivers.map((key, at) => {
      const boxed = Buffer.from((request.invitations as string[])[at] ?? '', 'base64')
      const json = openJSON('I', boxed, Buffer.from(key, 'hex'), keys) ?? '{}'
      const invited = String(JSON.parse(json).key ?? address.key)
      return Buffer.from(invited, 'hex')
    })
    const wanted = random.chance(0.6) ? threshold : threshold + random.pick(-1, 1)
    const length = Math.max(1, Math.min(wanted, receivers.length))
    const made = sealDealing(
      random.chance(0.7) ? index : random.pick(0, 2),
      undefined,
      length,
      recipients,
    )
    if ('complaints' in made) return undefined
    const sealed = made.sealed.map(each => Buffer.from(each).toString('base64'))
    return { dealing: made.dealing, sealed }
  }

  /** What malicious holders do with all that they have seen. */
  private async attack(): Promise<void> {
    const { random } = this
    const known = this.seen.filter(({ order }) => typeof order === 'string')
    if (known.length === 0) return
    const request = random.of(known)
    const { order, signature } = request
    const signed = { order, signature }
    const target = random.of(this.holders.filter(each => !each.isMalicious))
    const ask = (kind: string, fields: Fields): Promise<Fields | undefined> =>
      this.deliver(target, { kind, ...signed, ...fields } as HolderRequest).catch(() => undefined)
    const dealers = this.holders.map(({ address }) => address.key)
    const id = String(order)
    const { step = '', attempt } = request
    if (this.isStolen && random.chance(0.5)) return this.steal(target)
    switch (random.pick(0, 7)) {
      case 0: {
        const answer = await ask('invite', { dealers })
        if (answer !== undefined)
          this.invitations.set(`${id} ${target.at}`, answer.invitations as string[])
        return
      }
      case 1: {
        const { receivers } = JSON.parse(id.slice('sluice vault order '.length))
        const invitations = (receivers as string[]).map(key => {
          const from = this.holders.find(({ address }) => address.key === key)
          return this.invitations.get(`${id} ${from?.at}`)?.[target.at] ?? ''
        })
        const dealt = await ask('deal', { step, invitations })
        if (dealt?.sealed !== undefined)
          this.seen.push({ order, signature, dealt, dealer: target.at })
        return
      }
      case 2: {
        const dealt = this.seen.filter(each => each.order === order && each.dealt !== undefined)
        const { receivers } = JSON.parse(id.slice('sluice vault order '.length))
        const index = (receivers as string[]).indexOf(target.address.key)
        const chosen = dealt.slice(-random.pick(1, 3)).map(each => each.dealt as Fields)
        await ask('accept', {
          ...{ step, attempt: attempt ?? 9 },
          dealings: chosen.map(({ dealing }) => dealing),
          sealed: chosen.map(({ sealed }) => (sealed as string[])[index]),
        })
        return
      }
      case 3:
        return this.driveAnew(signed)
      case 6:
        // All earlier orders once more, so that it forgets the latest.
        if (!random.chance(0.3)) return
        for (const each of new Map(known.map(one => [one.order, one])).values())
          await ask('invite', { dealers, order: each.order, signature: each.signature })
        return
      case 4: {
        // A later order that the writer has not signed.
        const forged = orderText({
          ...orderIn(request),
          id: idOf(random),
          signedAt: ground.now + DAY,
        })
        await ask('invite', { dealers, order: forged })
        return
      }
      case 5: {
        // The ciphertext of a secret, in place of that of a proof.
        if (!random.chance(0.2)) return
        const { publicKey } = this.head
        const label = Uint8Array.from(PROOF_LABEL, byte => byte ^ 1)
        const ciphertext = await encrypt(publicKey, Buffer.from('secret'), { label })
        const { hexOf } = await import('../../../vault/manifest.js')
        await ask('prove', { publicKey: hexOf(publicKey), ciphertext, isSecret: true })
        return
      }
      default:
        // As it was sent to a malicious holder itself.
        await ask(String(request.kind ?? 'accept'), request)
    }
  }

  /** With the writer's key: orders a holder to deal to malicious holders, in the name of whomever. */
  private async steal(target: ModelHolder): Promise<void> {
    const { random } = this
    const thief = KEYS[6] as BoxKeys
    const liars = this.holders.filter(each => each.isMalicious)
    const keys = [...this.holders.map(({ address }) => address.key), formatKey(thief.publicKey)]
    const liar = random.of(liars).address.key
    const chosen = [liar, random.chance(0.5) ? formatKey(thief.publicKey) : random.of(keys)]
    const receivers = [...chosen, random.of(keys)].slice(0, random.pick(1, 3))
    const order = {
      ...{ generation: this.head.generation, isFresh: false, receivers },
      threshold: random.pick(1, receivers.length),
    }
    const { id, ...signed } = signOrder(order, writer)
    const json = `I${JSON.stringify({ id, key: formatKey(thief.publicKey) })}`
    const invitations = receivers.map(key => {
      const isMine =
        key === formatKey(thief.publicKey) || liars.some(each => each.address.key === key)
      const sender = Buffer.from(isMine ? key : formatKey(thief.publicKey), 'hex')
      const head = [target.keys.publicKey, sender].map(each => Buffer.from(each))
      return Buffer.concat([...head, Buffer.from(json)]).toString('base64')
    })
    const content = [invitations]
    const step = signStep(
      { id, kind: 'deal', holder: target.address.key, attempt: 1, content },
      writer,
    )
    const request = { kind: 'deal', ...signed, step, invitations }
    await this.deliver(target, request).catch(() => undefined)
  }

  /** Has every holder invite, deal and accept anew, with an order that the writer has signed. */
  private async driveAnew(signed: Fields): Promise<void> {
    const { random } = this
    const { receivers } = JSON.parse(String(signed.order).slice('sluice vault order '.length))
    const dealers = this.holders.map(({ address }) => address.key)
    const all = this.holders.filter(({ address }) => receivers.includes(address.key))
    const ask = (holder: ModelHolder, fields: Fields): Promise<Fields | undefined> =>
      this.deliver(holder, { ...signed, step: '', ...fields } as unknown as HolderRequest).catch(
        () => undefined,
      )
    const invited = new Map<string, string[]>()
    for (const holder of all) {
      const answer = await ask(holder, { kind: 'invite', dealers })
      invited.set(holder.address.key, (answer?.invitations ?? []) as string[])
    }
    const dealt: Fields[] = []
    for (const holder of this.holders) {
      const invitations = receivers.map((key: string) => invited.get(key)?.[holder.at] ?? '')
      const answer = await ask(holder, { kind: 'deal', invitations })
      if (answer?.sealed !== undefined) dealt.push(answer)
    }
    const dealings = dealt.map(({ dealing }) => dealing)
    for (const holder of all.filter(({ isMalicious }) => !isMalicious && random.chance(0.7))) {
      const index = receivers.indexOf(holder.address.key)
      const sealed = dealt.map(each => (each.sealed as string[])[index])
      await ask(holder, { kind: 'accept', attempt: 9, dealings, sealed })
    }
  }

  /** The network is whole again, and no process ends. Who has the writer's key finishes what was begun. */
  private async heal(): Promise<void> {
    Object.assign(this.faults, { lossy: 0, crashes: 0, disks: 0, restores: 0 })
    this.isCrashed = false
    for (const holder of this.holders) {
      if (holder.isMalicious) continue
      await holder.start()
      await this.deliver(holder, { kind: 'manifest', text: this.head.text }).catch(() => undefined)
    }
  }

  /** The shares of the honest holders that are stored, whether or not the holders go by the manifest yet. */
  private isHeld({ addresses, publicKey, threshold }: SignedManifest): boolean {
    // All shares are in the directory still.
    if (addresses === undefined) return true
    const holding = addresses.filter(({ url }, index) => {
      const holder = this.holders.find(each => each.address.url === url) as ModelHolder
      const texts = [...ground.disk.snapshot(`${holder.directory}/shares`).values()]
      const isOfIt = (text: string): boolean =>
        parsePrivateShare(text).v === logarithmOf(publicKey.hArray[index])
      return !holder.isMalicious && texts.some(isOfIt)
    })
    return holding.length >= threshold
  }

  /** No rotation may hide that the key before was lost: of an unsettled change, it or the one before is held. */
  private checkHeld(): void {
    if (this.isStolen || this.isHeld(this.head)) return
    const { isUnsettled, generation, sequence } = this.head
    const before = this.manifests.findLast(each => each.generation !== generation)
    if (isUnsettled === true && before !== undefined && this.isHeld(before)) return
    this.broken.push(`the secret is lost at change ${sequence}`)
  }

  /** The secret is readable: enough honest holders have their shares of the key in use. */
  private check(): void {
    // All shares are in the directory still.
    if (this.head.addresses === undefined) return
    const { addresses, publicKey, threshold, generation, sequence } = this.head
    const shares = new Map<number, PrivateShare>()
    for (const [index, { url }] of addresses.entries()) {
      const holder = this.holders.find(each => each.address.url === url) as ModelHolder
      if (holder.isMalicious) continue
      const text = ground.disk.files.get(`${holder.directory}/shares/${generation}.json`)
      const manifest = ground.disk.files.get(`${holder.directory}/manifest.json`) ?? ''
      const goesByIt = manifest.trimEnd() === this.head.text
      if (text === undefined || !goesByIt) continue
      const share = parsePrivateShare(text)
      if (logarithmOf(publicKey.hArray[index]) === share.v) shares.set(index, share)
    }
    this.say(`change ${sequence}: shares of ${[...shares.keys()].join(', ')}`)
    if (shares.size < threshold) {
      this.broken.push(`the secret is lost: ${shares.size} shares, threshold ${threshold}`)
      return
    }
    const few = new Map([...shares].slice(0, threshold))
    const sum = combineSubShares(
      new Map([...few].map(([index, { v }]) => [index, { index: 0, v } as PrivateShare])),
    )
    if (sum.v !== logarithmOf((publicKey as PublicKey).h))
      this.broken.push('the shares are of another key')
  }

  /** Whoever lies is named, and nobody else alone. */
  private checkNames(
    { what, text, isDone, hadFaults }: Outcome,
    inUse: readonly ModelHolder[],
  ): void {
    // A holder that takes over an earlier generation only now raises its threshold after its operator has lowered it.
    const isOfLies = (line: string): boolean => !line.includes('minThreshold')
    const lines = text
      .split('\n')
      .filter(line => /holder[ -]\d/.test(line))
      .filter(isOfLies)
    const isOfLiar = (line: string): boolean =>
      this.holders.some(({ isMalicious, address }) => isMalicious && line.includes(address.url))
    if (!hadFaults) {
      for (const line of lines)
        if (!isOfLiar(line)) this.broken.push(`${what}: nobody who lied is named: ${line}`)
      if (!isDone && isOfLies(text) && !lines.some(isOfLiar))
        this.broken.push(`${what}: refused, and nobody is named: ${text}`)
    }
    if (!isDone) return
    for (const holder of this.empty)
      if (inUse.includes(holder) && !text.includes(holder.address.url))
        this.broken.push(`${what}: holder ${holder.at} has stored nothing, and is not named`)
  }
}

/** Milliseconds in a day. */
const DAY = 86_400_000
const ORDER = 'sluice vault order '

const orderText = (order: object): string => ORDER + JSON.stringify(order)
const orderIn = ({ order }: Fields): Order => JSON.parse(String(order).slice(ORDER.length))
const idOf = (random: Random): string => String(random.pick(10 ** 9, 10 ** 10)).padStart(32, '0')

/** What the writer is told in the end. */
function outcomeOf(
  work: Promise<{ readonly leftOut: readonly string[] }>,
): Promise<{ readonly text: string; readonly isDone: boolean }> {
  return work.then(
    ({ leftOut }) => ({ text: leftOut.join('\n'), isDone: true }),
    (error: Error) => ({ text: error.message, isDone: false }),
  )
}

const logarithmOf = (point: unknown): bigint => (point as { readonly v: bigint }).v
