import { setImmediate as nextTick } from 'node:timers/promises'
import { formatKey } from '../../../crypto/hex-key.js'
import { type BoxKeys, boxKeys } from '../../../crypto/sealed-box.js'
import {
  combineSubShares,
  generateKeys,
  type PrivateShare,
  type PublicKey,
  parsePrivateShare,
} from '../../../crypto/tdh2/index.js'
import { toJSON } from '../../../local/sealed-message.js'
import { type ChangingVault, reshare, rotate } from '../../../local/vault/change-key.js'
import { sealDealing } from '../../../local/vault/dealing.js'
import { VaultError } from '../../../local/vault/errors.js'
import type { VaultFolder } from '../../../local/vault/files.js'
import {
  HISTORY,
  type NodeAddress,
  type SignedManifest,
  signManifest,
} from '../../../local/vault/manifest.js'
import { createHolder, type Holder } from '../../../local/vault/process/holder.js'
import { createNodeFiles } from '../../../local/vault/process/node-files.js'
import type { NodeRequest } from '../../../local/vault/process/protocol.js'
import type { Writer } from '../../../local/vault/writer.js'
import { createRandom, type Random } from '../worlds/random.js'
import { digestText } from './digest-text.js'
import { Crash } from './disk.js'
import { ground } from './mocks.js'

type Fields = Readonly<Record<string, unknown>>

/** A message on its way to a node. */
interface Message {
  readonly node: ModelNode
  readonly request: NodeRequest
  readonly done: (answer: Fields) => void
  readonly failed: (error: Error) => void
}

/** Keys are dear to make: all worlds share them. */
const KEYS: readonly BoxKeys[] = Array.from({ length: 7 }, () => boxKeys())
const WRITER_KEY = 'aa'.repeat(32)
const writer: Writer = { publicKey: WRITER_KEY, sign: text => digestText(text + WRITER_KEY) }

class ModelNode {
  readonly address: NodeAddress
  readonly directory: string
  isMalicious = false
  holder: Holder | undefined

  readonly at: number
  readonly keys: BoxKeys

  constructor(at: number, keys: BoxKeys) {
    this.at = at
    this.keys = keys
    this.address = { url: `http://node-${at}`, key: formatKey(keys.publicKey) }
    this.directory = `/node-${at}`
  }

  async start(): Promise<void> {
    const { disk } = ground
    const path = (file: string): string => `${this.directory}/${file}`
    const folder = {
      directory: this.directory,
      permissions: { checkFile: () => undefined, checkFolder: () => undefined },
      async read(file: string) {
        const text = disk.read(path(file))
        return text === undefined ? undefined : JSON.parse(text)
      },
      write: async (file: string, text: string) => disk.write(path(file), text),
      writeNew: async (file: string, text: string) => disk.write(path(file), text),
    } as unknown as VaultFolder
    this.holder = await createHolder(createNodeFiles(folder), this.keys)
  }
}

/** What came of one change of the key. */
interface Outcome {
  readonly what: string
  readonly text: string
  readonly isDone: boolean
  readonly hadFaults: boolean
}

/**
 * A writer that reshares and rotates a key among nodes, some of which are malicious, over a network that loses, repeats and reorders
 * messages, while processes end and disks lose what was written. The writer's code and the nodes' is that of the library.
 */
export class World {
  readonly story: string[] = []
  readonly broken: string[] = []
  private readonly random: Random
  private readonly nodes: readonly ModelNode[]
  private readonly messages: Message[] = []
  /** All requests so far, to be repeated. */
  private readonly sent: { readonly node: ModelNode; readonly request: NodeRequest }[] = []
  /** What malicious nodes have seen: orders, and what was answered to them. */
  private readonly seen: Fields[] = []
  private readonly invitations = new Map<string, string[]>()
  private manifests: SignedManifest[] = []
  private isCrashed = false
  private hadFaults = false
  private readonly faults: {
    readonly lossy: number
    readonly crashes: number
    readonly disks: number
  }
  /** Malicious nodes that have said that they accept, and have stored nothing. */
  private readonly empty = new Set<ModelNode>()
  private nodesInUse: readonly ModelNode[] = []

  constructor(seed: number) {
    this.random = createRandom(seed)
    ground.draw = this.random.next
    const { random } = this
    this.nodes = KEYS.slice(0, random.pick(3, 6)).map((keys, at) => new ModelNode(at, keys))
    const isFaulty = random.chance(0.6)
    this.faults = {
      lossy: isFaulty && random.chance(0.5) ? 0.08 : 0,
      crashes: isFaulty && random.chance(0.5) ? 0.03 : 0,
      disks: isFaulty && random.chance(0.4) ? 0.2 : 0,
    }
  }

  private say(line: string): void {
    this.story.push(line)
  }

  async run(): Promise<void> {
    const { random } = this
    ground.disk.files.clear()
    ground.disk.onOperation = () => undefined
    ground.ask = (address, _keys, request) => this.send(address, request)
    const count = random.pick(2, Math.min(5, this.nodes.length))
    const threshold = random.pick(1, 10) === 1 ? count : random.pick(2, count)
    await this.begin(this.nodes.slice(0, count), threshold)
    // As many malicious nodes as the vault is made for, of those that are to be nodes at any time.
    const most = Math.max(0, Math.min(count - threshold, random.pick(0, 2)))
    for (let made = 0; made < most; made++) random.of(this.nodes).isMalicious = true
    const liars = this.nodes.filter(each => each.isMalicious)
    this.say(`${count} of ${this.nodes.length} nodes, threshold ${threshold}`)
    this.say(`malicious: ${liars.map(({ at }) => at).join(', ')}; ${JSON.stringify(this.faults)}`)
    const changes = random.pick(1, 3)
    for (let change = 0; change < changes; change++) await this.change(liars.length)
    await this.heal()
    this.check()
  }

  /** The nodes have the first generation. */
  private async begin(nodes: readonly ModelNode[], threshold: number): Promise<void> {
    const { publicKey, shares } = generateKeys({ threshold, nodes: nodes.length })
    const manifest = signManifest(
      {
        ...{ sequence: 1, history: [], generation: 1, threshold, publicKey, secrets: [] },
        addresses: nodes.map(({ address }) => address),
      },
      writer,
    )
    this.manifests = [manifest]
    this.lowerThresholds()
    for (const [at, node] of nodes.entries()) {
      const { formatPrivateShare } = await import('../../../crypto/tdh2/index.js')
      const share = formatPrivateShare(shares[at] as PrivateShare)
      ground.disk.write(`${node.directory}/shares/1.json`, share)
    }
    for (const node of this.nodes) {
      await node.start()
      await node.holder?.({ kind: 'manifest', text: manifest.text }, '')
    }
    this.nodesInUse = nodes
  }

  /** The operators let their nodes take part in any threshold. */
  private lowerThresholds(): void {
    const trust = {
      ...{ writer: WRITER_KEY, callers: [], minThreshold: 1 },
      peers: this.nodes.map(({ address }) => address.key),
    }
    for (const node of this.nodes)
      ground.disk.write(`${node.directory}/node.json`, JSON.stringify(trust))
  }

  private get head(): SignedManifest {
    return this.manifests.at(-1) as SignedManifest
  }

  private vault(): ChangingVault {
    const world = this
    const stop = (): void => {
      if (world.isCrashed) throw new Crash('the writer has ended')
    }
    return {
      folder: {} as VaultFolder,
      writer,
      store: {
        remove: async () => undefined,
        removeLeftOver: async () => undefined,
      } as unknown as ChangingVault['store'],
      stateOf: () => {
        throw new Error('the model has no secrets')
      },
      log: {
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
        async recover() {
          throw new Error('the model has no backups')
        },
      },
    }
  }

  private maybeCrash(when: string): void {
    if (!this.random.chance(this.faults.crashes)) return
    this.isCrashed = true
    this.hadFaults = true
    this.say(`the writer ends ${when}`)
  }

  /** One change of the key, by a writer that may end in its midst. */
  private async change(liars: number): Promise<void> {
    const { random } = this
    this.isCrashed = false
    this.hadFaults = false
    const generation = this.head.generation
    const isFresh = random.chance(0.35)
    const others = this.nodes.filter(() => random.chance(0.75))
    const next = isFresh || random.chance(0.4) || others.length < 2 ? undefined : others
    const inUse = next ?? this.nodesInUse
    const bad = inUse.filter(each => each.isMalicious).length
    // A threshold that so many malicious nodes cannot keep from being reached, nor reach.
    const threshold = Math.max(
      Math.min(2, inUse.length),
      Math.min(inUse.length - bad, random.pick(1, 4)),
    )
    if (threshold > inUse.length - bad || liars >= threshold) return
    const what = isFresh ? 'rotate' : `reshare to ${inUse.map(({ at }) => at).join(', ')}`
    this.say(`the writer is to ${what}${isFresh ? '' : `, threshold ${threshold}`}`)
    this.lowerThresholds()
    const addresses = inUse.map(({ address }) => address)
    const work = isFresh ? rotate(this.vault()) : reshare(this.vault(), { addresses, threshold })
    const outcome = await this.drive(
      work.then(
        ({ leftOut }) => ({ text: leftOut.join('\n'), isDone: true }),
        (error: Error) => ({ text: error.message, isDone: false }),
      ),
    )
    this.say(`${outcome.isDone ? 'done' : 'refused'}: ${outcome.text}`)
    if (this.head.generation !== generation && !isFresh) this.nodesInUse = inUse
    this.checkNames({ what, ...outcome, hadFaults: this.hadFaults }, inUse)
    this.empty.clear()
  }

  private send(address: { readonly url: string }, request: NodeRequest): Promise<Fields> {
    const node = this.nodes.find(each => each.address.url === address.url) as ModelNode
    return new Promise((done, failed) => {
      const copy = JSON.parse(toJSON(request)) as NodeRequest
      this.messages.push({ node, request: copy, done, failed })
    })
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
    if (this.nodes.some(each => each.isMalicious) && random.chance(0.35)) await this.attack()
    if (random.chance(0.1)) await this.repeat()
    const [message] = this.messages.splice(random.pick(0, this.messages.length - 1), 1)
    const { node, request, done, failed } = message as Message
    const unreached = new VaultError('it could not be reached', { isRetryable: true })
    if (random.chance(faults.lossy)) {
      this.hadFaults = true
      this.say(`${request.kind} to ${node.at} is lost`)
      return failed(unreached)
    }
    this.maybeCrash('in the midst')
    const lie = node.isMalicious ? this.lie(node, request) : undefined
    if (lie !== undefined) {
      this.say(`${request.kind} to ${node.at}: it lies: ${JSON.stringify(lie).slice(0, 100)}`)
      return 'failure' in lie ? failed(new VaultError(String(lie.failure))) : done(lie)
    }
    try {
      const answer = await this.deliver(node, request)
      if (random.chance(faults.lossy)) {
        this.hadFaults = true
        this.say(`${request.kind} to ${node.at}: the answer is lost`)
        return failed(unreached)
      }
      done(answer)
    } catch (error) {
      failed(error instanceof Crash ? unreached : (error as Error))
    }
    await this.loseShare(node, request)
  }

  /** Gives a node a request; it may end in the midst of it, and starts anew. */
  private async deliver(node: ModelNode, request: NodeRequest): Promise<Fields> {
    this.sent.push({ node, request })
    if (node.isMalicious) this.seen.push(request)
    const willEnd = this.random.chance(this.faults.crashes)
    let left = this.random.pick(0, 6)
    ground.disk.onOperation = () => {
      if (willEnd && left-- === 0) throw new Crash('the node has ended')
    }
    try {
      const answer = await node.holder?.(request, '')
      this.say(`${request.kind} to ${node.at}: ${JSON.stringify(answer).slice(0, 40)}`)
      return JSON.parse(toJSON(answer ?? {}))
    } catch (error) {
      this.say(`${request.kind} to ${node.at}: ${(error as Error).message}`)
      if (!(error instanceof Crash)) throw error
      this.hadFaults = true
      ground.disk.onOperation = () => undefined
      await node.start()
      throw error
    } finally {
      ground.disk.onOperation = () => undefined
    }
  }

  /** A disk loses the share that was written last, once it was shown; of so many nodes that the others do not suffice, at times. */
  private async loseShare(node: ModelNode, { kind }: NodeRequest): Promise<void> {
    const { random, faults } = this
    if (node.isMalicious || kind !== 'prove' || !random.chance(faults.disks)) return
    if (faults.crashes > 0 || faults.lossy > 0) return
    for (const path of [...ground.disk.files.keys()])
      if (path.startsWith(`${node.directory}/shares/pending-`)) {
        ground.disk.files.delete(path)
        this.hadFaults = true
        this.say(`the disk of ${node.at} loses its new share`)
      }
    await node.start()
  }

  /** Sends a request of before once more. */
  private async repeat(): Promise<void> {
    if (this.sent.length === 0) return
    const { node, request } = this.random.of(this.sent)
    await this.deliver(node, request).catch(() => undefined)
  }

  /** What a malicious node answers in place of what it is asked; undefined where it does as it should. */
  private lie(node: ModelNode, request: NodeRequest): Fields | undefined {
    const { random } = this
    this.seen.push(request)
    if (random.chance(0.6)) return undefined
    const { kind } = request
    if (random.chance(0.2)) return { failure: 'no' }
    if (kind === 'accept') {
      if (random.chance(0.5)) {
        this.empty.add(node)
        return { complaints: [] }
      }
      const dealers = (request.dealings as string[]).map(each => JSON.parse(each).Index as number)
      return { complaints: dealers.filter(() => random.chance(0.5)) }
    }
    if (kind === 'deal') return this.falseDealing(request)
    if (kind === 'prove') return { share: '{}' }
    return kind === 'manifest' ? { hasShare: random.chance(0.8) } : undefined
  }

  /** A dealing of whatever, or one that is wrong for some. */
  private falseDealing(request: NodeRequest): Fields | undefined {
    const { random } = this
    const order = JSON.parse((request.order as string).slice('sluice vault order '.length))
    const invitations = request.invitations as string[]
    const dealer = random.pick(0, 2)
    const { dealing, sealed } = sealDealing(
      dealer,
      undefined,
      order.threshold,
      invitations.map(() => KEYS[0]?.publicKey as Uint8Array),
    )
    return { dealing, sealed: sealed.map(each => Buffer.from(each).toString('base64')) }
  }

  /** What malicious nodes do with all that they have seen. */
  private async attack(): Promise<void> {
    const { random } = this
    const known = this.seen.filter(({ order }) => typeof order === 'string')
    if (known.length === 0) return
    const request = random.of(known)
    const { order, signature } = request
    const signed = { order, signature }
    const target = random.of(this.nodes.filter(each => !each.isMalicious))
    const ask = (kind: string, fields: Fields): Promise<Fields | undefined> =>
      this.deliver(target, { kind, ...signed, ...fields } as NodeRequest).catch(() => undefined)
    const dealers = this.nodes.map(({ address }) => address.key)
    const id = String(order)
    const { step = '', attempt } = request
    switch (random.pick(0, 4)) {
      case 0: {
        const answer = await ask('invite', { dealers })
        if (answer !== undefined)
          this.invitations.set(`${id} ${target.at}`, answer.invitations as string[])
        return
      }
      case 1: {
        const { receivers } = JSON.parse(id.slice('sluice vault order '.length))
        const invitations = (receivers as string[]).map(key => {
          const from = this.nodes.find(({ address }) => address.key === key)
          return this.invitations.get(`${id} ${from?.at}`)?.[target.at] ?? ''
        })
        const dealt = await ask('deal', { step, invitations })
        if (dealt !== undefined) this.seen.push({ order, signature, dealt, dealer: target.at })
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
      default:
        // As it was sent to a malicious node itself.
        await ask(String(request.kind ?? 'accept'), request)
    }
  }

  /** Has every node invite, deal and accept anew, with an order that the writer has signed. */
  private async driveAnew(signed: Fields): Promise<void> {
    const { random } = this
    const { receivers } = JSON.parse(String(signed.order).slice('sluice vault order '.length))
    const dealers = this.nodes.map(({ address }) => address.key)
    const all = this.nodes.filter(({ address }) => receivers.includes(address.key))
    const ask = (node: ModelNode, fields: Fields): Promise<Fields | undefined> =>
      this.deliver(node, { ...signed, step: '', ...fields } as unknown as NodeRequest).catch(
        () => undefined,
      )
    const invited = new Map<string, string[]>()
    for (const node of all) {
      const answer = await ask(node, { kind: 'invite', dealers })
      invited.set(node.address.key, (answer?.invitations ?? []) as string[])
    }
    const dealt: Fields[] = []
    for (const node of this.nodes) {
      const invitations = receivers.map((key: string) => invited.get(key)?.[node.at] ?? '')
      const answer = await ask(node, { kind: 'deal', invitations })
      if (answer !== undefined) dealt.push(answer)
    }
    const dealings = dealt.map(({ dealing }) => dealing)
    for (const node of all.filter(({ isMalicious }) => !isMalicious && random.chance(0.7))) {
      const index = receivers.indexOf(node.address.key)
      const sealed = dealt.map(each => (each.sealed as string[])[index])
      await ask(node, { kind: 'accept', attempt: 9, dealings, sealed })
    }
  }

  /** The network is whole again, and no process ends. Who has the writer's key finishes what was begun. */
  private async heal(): Promise<void> {
    Object.assign(this.faults, { lossy: 0, crashes: 0, disks: 0 })
    this.isCrashed = false
    for (const node of this.nodes) {
      if (node.isMalicious) continue
      await node.start()
      await this.deliver(node, { kind: 'manifest', text: this.head.text }).catch(() => undefined)
    }
  }

  /** The secret is readable: enough honest nodes have their shares of the key in use. */
  private check(): void {
    const { addresses = [], publicKey, threshold, generation, sequence } = this.head
    const shares = new Map<number, PrivateShare>()
    for (const [index, { url }] of addresses.entries()) {
      const node = this.nodes.find(each => each.address.url === url) as ModelNode
      if (node.isMalicious) continue
      const text = ground.disk.files.get(`${node.directory}/shares/${generation}.json`)
      const manifest = ground.disk.files.get(`${node.directory}/manifest.json`) ?? ''
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
    inUse: readonly ModelNode[],
  ): void {
    // A node that takes over an earlier generation only now raises its threshold after its operator has lowered it.
    const isOfLies = (line: string): boolean => !line.includes('minThreshold')
    const lines = text
      .split('\n')
      .filter(line => /node[ -]\d/.test(line))
      .filter(isOfLies)
    const isOfLiar = (line: string): boolean =>
      this.nodes.some(({ isMalicious, address }) => isMalicious && line.includes(address.url))
    if (!hadFaults) {
      for (const line of lines)
        if (!isOfLiar(line)) this.broken.push(`${what}: nobody who lied is named: ${line}`)
      if (!isDone && isOfLies(text) && !lines.some(isOfLiar))
        this.broken.push(`${what}: refused, and nobody is named: ${text}`)
    }
    if (!isDone) return
    for (const node of this.empty)
      if (inUse.includes(node) && !text.includes(node.address.url))
        this.broken.push(`${what}: node ${node.at} has stored nothing, and is not named`)
  }
}

const logarithmOf = (point: unknown): bigint => (point as { readonly v: bigint }).v
