// One malicious holder of three, threshold 2: it has its own key, all that it was ever sent, and the addresses of the others.
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { buffer } from 'node:stream/consumers'
import { afterEach } from '@jest/globals'
import { type BoxKeys, boxKeys } from 'sluice/internal'
import {
  askHolder,
  type HolderRequest,
  openHolderRequest,
  sealHolderAnswer,
} from '../../../vault/process/protocol.js'
import type { Holder } from './holder-processes.js'

type Fields = Readonly<Record<string, unknown>>

/** What stands before a holder: sees its requests, and may answer in its place. `'nothing'` cuts the connection. */
export type Front = (request: HolderRequest) => Promise<object | 'nothing' | undefined>

const servers: Server[] = []
afterEach(async () => {
  await Promise.all(servers.splice(0).map(each => new Promise(done => each.close(done))))
})

export const keysOf = ({ directory }: Holder): BoxKeys =>
  boxKeys(Buffer.from(readFileSync(join(directory, 'holder.key'), 'utf8').trim(), 'hex'))

/** Serves in place of a holder, with its key. What `front` does not answer the holder itself does. */
export async function standBefore(holder: Holder, front: Front): Promise<string> {
  const keys = keysOf(holder)
  const server = createServer(async (request, response) => {
    const body = await buffer(request)
    const opened = openHolderRequest(body, keys)
    const given = opened && (await front(opened.request))
    if (given === 'nothing') return void response.destroy()
    if (opened !== undefined && given !== undefined)
      return void response.end(sealHolderAnswer(given, opened.replyTo, keys))
    const answer = await fetch(`${holder.url}${request.url}`, { method: 'POST', body })
    response.writeHead(answer.status).end(new Uint8Array(await answer.arrayBuffer()))
  })
  servers.push(server)
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** The messages of a change of the key, in their order. */
export const MESSAGES = ['invite', 'deal', 'accept', 'prove', 'manifest'] as const
export type Kind = (typeof MESSAGES)[number]

/** What a malicious holder does with messages of a kind. */
export const ACTIONS = ['repeat', 'reorder', 'drive', 'withhold', 'refuse', 'lie'] as const
export type Action = (typeof ACTIONS)[number]

/** A malicious holder, with what it was sent. */
export class Liar {
  private readonly seen: HolderRequest[] = []
  private readonly honest: readonly Holder[]
  private readonly keys: BoxKeys
  private readonly holder: Holder
  /** The change that it acts in has begun. */
  isActing = false
  action: Action = 'repeat'
  kind: Kind = 'invite'
  step: Kind = 'invite'
  /** How often it has acted. */
  acts = 0

  constructor(holder: Holder, honest: readonly Holder[]) {
    this.holder = holder
    this.honest = honest
    this.keys = keysOf(holder)
  }

  /** Answers in the place of its holder, or acts on the others before that does. */
  readonly front: Front = async request => {
    this.seen.push(request)
    const { action, kind, step } = this
    if (!this.isActing) return undefined
    if (action === 'withhold' || action === 'refuse' || action === 'lie') {
      if (request.kind !== kind) return undefined
      this.acts++
      if (action === 'withhold') return 'nothing'
      return action === 'refuse'
        ? { failure: { code: 'VAULT', message: 'no' } }
        : { answer: await this.lieAbout(request) }
    }
    if (request.kind !== step) return undefined
    this.acts++
    // The others do their part meanwhile.
    await new Promise(done => setTimeout(done, 30))
    if (action === 'repeat') await this.repeat(this.seen.filter(each => each.kind === kind))
    else if (action === 'reorder') await this.reorder()
    else await this.drive()
    return undefined
  }

  private async ask(holder: Holder, request: Fields): Promise<Fields> {
    // The answer is sealed to this recipient, not to the writer that asked.
    const { replyTo: _, ...fields } = request
    return askHolder(holder, this.keys, fields as HolderRequest).catch(() => ({}))
  }

  /** Sends every other holder what it was sent itself, now and before. */
  private async repeat(requests: readonly HolderRequest[]): Promise<void> {
    for (const request of requests.slice(-4))
      await Promise.all(this.honest.map(holder => this.ask(holder, request)))
  }

  /** From the last message to the first, and those of the kind once more. */
  private async reorder(): Promise<void> {
    const latest = MESSAGES.flatMap(kind => this.seen.findLast(each => each.kind === kind) ?? [])
    await this.repeat(latest.reverse())
    await this.repeat(this.seen.filter(each => each.kind === this.kind))
  }

  /** Has the others do all up to a message anew, with the order and the steps that it was sent. */
  private async drive(): Promise<void> {
    const { honest, kind } = this
    const last = this.seen.findLast(each => typeof each.order === 'string')
    const sent = this.seen.findLast(each => each.kind === kind)
    if (kind === 'manifest') {
      // One that it has changed, and the oldest that it was sent.
      const text = String(sent?.text ?? '')
      const oldest = this.seen.find(each => each.kind === 'manifest')
      for (const each of [text.replace('"threshold":2', '"threshold":1'), String(oldest?.text)])
        for (const holder of honest) await this.ask(holder, { kind, text: each })
      return
    }
    if (last === undefined) return
    const { order, signature } = last
    // The manifest that it was sent, once more.
    await this.repeat(this.seen.filter(each => each.kind === 'manifest').slice(-1))
    const dealers = [this.holder, ...honest].map(({ key }) => key)
    if (kind === 'prove') {
      const own = { kind, order, signature, publicKey: sent?.publicKey ?? '' }
      for (const holder of honest)
        await this.ask(holder, { ...own, ciphertext: sent?.ciphertext ?? '{}' })
      return
    }
    const stepped = this.seen.findLast(each => each.order === order && each.step !== undefined)
    // Without a step, and with what the writer has signed for the malicious holder itself.
    for (const { step = '', attempt = 9 } of [
      {} as Fields,
      ...(stepped === undefined ? [] : [stepped]),
    ])
      await this.driveTo(kind, { order, signature, step, attempt }, dealers)
  }

  private async driveTo(kind: Kind, signed: Fields, dealers: readonly string[]): Promise<void> {
    const all = [this.holder, ...this.honest]
    const invited = await Promise.all(
      all.map(holder => this.ask(holder, { kind: 'invite', ...signed, dealers })),
    )
    if (kind === 'invite') return
    const dealt = await Promise.all(
      all.map((holder, at) =>
        this.ask(holder, {
          kind: 'deal',
          ...signed,
          invitations: invited.map(({ invitations }) => (invitations as string[])?.[at] ?? ''),
        }),
      ),
    )
    if (kind === 'deal') return
    // As few as it takes: the secret would be another with each choice.
    const chosen = dealt.filter(({ sealed }) => sealed !== undefined).slice(0, 2)
    for (const [at, holder] of this.honest.entries())
      await this.ask(holder, {
        kind: 'accept',
        ...signed,
        dealings: chosen.map(({ dealing }) => dealing),
        sealed: chosen.map(({ sealed }) => (sealed as string[])[at + 1]),
      })
  }

  private async lieAbout(request: HolderRequest): Promise<Fields> {
    const honestAnswer = await this.ask(this.holder, request)
    switch (request.kind as Kind) {
      case 'invite': {
        const { invitations } = honestAnswer as { invitations: string[] }
        return { invitations: invitations.map(each => Buffer.from(each).toString('base64')) }
      }
      case 'deal': {
        const { dealing, sealed } = honestAnswer as { dealing: string; sealed: string[] }
        return { dealing, sealed: sealed.map(() => sealed[0]) }
      }
      case 'accept':
        await this.ask(this.holder, { ...request, sealed: [] })
        return { complaints: [1] }
      case 'prove':
        return this.ask(this.honest[0] as Holder, request)
      default:
        return { hasShare: false }
    }
  }
}
