import { inspect } from 'node:util'
import { describe, expect, test } from '@jest/globals'
import { DataStreamsError } from '../../../core/errors.js'
import { boxKeys, seal } from '../../../crypto/sealed-box.js'
import {
  createShare,
  encrypt,
  formatPublicKey,
  generateKeys,
  ownerLabel,
  parseCiphertext,
} from '../../../crypto/tdh2/index.js'
import type { ConfidentialCall } from '../../../plugins/confidential-http/call.js'
import { EnclaveError, VaultError } from '../../../plugins/confidential-http/errors.js'
import { limits } from '../../../plugins/confidential-http/limits.js'
import type { SecretName } from '../../../plugins/confidential-http/secret.js'
import {
  type SecretVault,
  type ShareHolder,
  secrets,
} from '../../../plugins/confidential-http/secrets/index.js'
import { callOf, carry, keepLog, OWNER, replyOf } from '../../support/plugins/confidential-http.js'
import { failureOf } from '../../support/waiting.js'

const SECRET = 'sk-live-"quoted"\nand on'
const OTHER = 'f'.repeat(40)
const holders = 3
const threshold = 2
const { publicKey, shares } = generateKeys({ threshold, nodes: holders })
const foreign = generateKeys({ threshold, nodes: holders })

const nameOf = (key: string, owner = OWNER): SecretName => ({ owner, namespace: 'main', key })

/** A holder's behaviour, given its honest answer. */
type Trick = (honest: Uint8Array, recipient: Uint8Array) => Uint8Array | Promise<Uint8Array>

interface Stored {
  readonly vault: SecretVault
  /** The holders asked, in order. */
  readonly asked: number[]
  /** The keys that shares were sealed to. */
  readonly recipients: string[]
}

/** A vault in memory, whose holders may misbehave. */
async function vaultOf(
  values: Readonly<Record<string, string | Uint8Array>> = { apiKey: SECRET },
  tricks: Readonly<Record<number, Trick>> = {},
  label: Uint8Array = ownerLabel(OWNER),
): Promise<Stored> {
  const asked: number[] = []
  const recipients: string[] = []
  const stored = new Map<string, string>()
  for (const [key, value] of Object.entries(values))
    stored.set(key, await encrypt(publicKey, Buffer.from(value), { label }))
  async function ciphertext({ key }: SecretName): Promise<string> {
    const found = stored.get(key)
    if (found === undefined) throw new VaultError(`key does not exist: ${key}`)
    return found
  }
  const vaultHolders = shares.map(
    (share): ShareHolder => ({
      index: share.index,
      async release(name, recipient) {
        asked.push(share.index)
        recipients.push(Buffer.from(recipient).toString('hex'))
        const text = createShare(parseCiphertext(publicKey, await ciphertext(name)), share)
        const honest = Uint8Array.from(Buffer.from(text))
        const trick = tricks[share.index]
        return trick === undefined ? seal(honest, recipient) : trick(honest, recipient)
      },
    }),
  )
  return { vault: { publicKey, threshold, holders: vaultHolders, ciphertext }, asked, recipients }
}

const ask = (vault: SecretVault, fields: Partial<ConfidentialCall> = {}) =>
  carry([secrets({ vault })], callOf({ secrets: [nameOf('apiKey')], ...fields }))

const shown = (error: unknown): string =>
  `${inspect(error, { depth: 20, showHidden: true })} ${String((error as Error).stack)}`

describe('secrets', () => {
  test('releases what the call asks for, for that call', async () => {
    const { vault, asked } = await vaultOf({ apiKey: SECRET, other: '', third: '\ufeffключ' })
    const { reply, sent } = ask(vault, { secrets: [nameOf('third'), nameOf('apiKey')] })
    expect(await reply).toEqual(replyOf())
    expect([...(sent[0]?.released ?? [])]).toEqual([
      ['third', '\ufeffключ'],
      ['apiKey', SECRET],
    ])
    // No more holders than needed.
    expect(asked).toEqual([0, 1, 0, 1])
  })

  test('asks no holder where the call names no secret', async () => {
    const { vault, asked } = await vaultOf()
    const { reply, sent } = ask(vault, { secrets: [] })
    await reply
    expect(sent[0]?.released).toEqual(new Map())
    expect(asked).toEqual([])
  })

  test('has shares sealed to a key of that call alone', async () => {
    const { vault, recipients } = await vaultOf({ apiKey: SECRET, other: 'x' })
    await ask(vault, { secrets: [nameOf('apiKey'), nameOf('other')] }).reply
    expect(new Set(recipients).size).toBe(1)
    await ask(vault).reply
    expect(new Set(recipients).size).toBe(2)
  })

  test('logs names, and no value', async () => {
    const { vault } = await vaultOf()
    const { log, lines } = keepLog()
    await ask(vault, { scope: { ...callOf().scope, log } }).reply
    expect(lines).toEqual(['secrets released: apiKey undefined'])
  })

  const tampered = (change: (share: Record<string, string>) => object): Trick =>
    function tamper(honest, recipient) {
      const fields = JSON.parse(Buffer.from(honest).toString()) as Record<string, string>
      return seal(Uint8Array.from(Buffer.from(JSON.stringify(change(fields)))), recipient)
    }
  const otherShare =
    (make: () => Promise<string>): Trick =>
    async (_honest, recipient) =>
      seal(Uint8Array.from(Buffer.from(await make())), recipient)
  const tricks: readonly (readonly [string, Trick, RegExp])[] = [
    [
      'seals its share to another key',
      honest => seal(honest, boxKeys().publicKey),
      /holder 1: its share does not open/,
    ],
    ['sends its share open', honest => honest, /holder 1: its share does not open/],
    ['sends nothing', () => new Uint8Array(), /holder 1: its share does not open/],
    [
      'seals something else',
      (_honest, recipient) => seal(Uint8Array.of(0xff, 0xfe), recipient),
      /holder 1: \S+/,
    ],
    [
      'sends the share of another holder',
      otherShare(async () => {
        const { vault } = await current
        return createShare(
          parseCiphertext(publicKey, await vault.ciphertext(nameOf('apiKey'))),
          shares[2] as (typeof shares)[number],
        )
      }),
      /holder 1: its share is that of holder 2/,
    ],
    [
      'sends the share of another ciphertext',
      otherShare(async () =>
        createShare(
          parseCiphertext(
            publicKey,
            await encrypt(publicKey, Buffer.from('else'), { label: ownerLabel(OWNER) }),
          ),
          shares[1] as (typeof shares)[number],
        ),
      ),
      /holder 1: .*verif/,
    ],
    [
      'sends the share of another vault',
      otherShare(async () => {
        const { vault } = await current
        return createShare(
          parseCiphertext(publicKey, await vault.ciphertext(nameOf('apiKey'))),
          foreign.shares[1] as (typeof shares)[number],
        )
      }),
      /holder 1: .*verif/,
    ],
    [
      'tampers with its share',
      tampered(share => ({ ...share, U_i: JSON.parse(formatPublicKey(publicKey)).H })),
      /holder 1: .*verif/,
    ],
    ['fails', () => Promise.reject(new VaultError('holder is down')), /holder 1: holder is down/],
    [
      'fails with words of others',
      () => Promise.reject(new TypeError(SECRET)),
      /holder 1: it failed with TypeError/,
    ],
    ['throws nothing at all', () => Promise.reject(undefined), /holder 1: it failed with Error/],
  ]
  let current: Promise<Stored>

  test.each(tricks)(
    'skips a holder that %s, and names it where too few are left',
    async (...row) => {
      const [, trick, reason] = row
      current = vaultOf({ apiKey: SECRET }, { 1: trick })
      const { vault, asked } = await current
      const { reply, sent } = ask(vault)
      await reply
      expect(sent[0]?.released.get('apiKey')).toBe(SECRET)
      expect(asked).toEqual([0, 1, 2])

      const down: Trick = () => Promise.reject(new VaultError('down'))
      current = vaultOf({ apiKey: SECRET }, { 1: trick, 2: down })
      const few = await current
      const failed = ask(few.vault)
      const error = await failureOf(failed.reply)
      expect(error).toMatchObject({ name: 'VaultError', code: 'VAULT' })
      expect(error.message).toMatch(/^secret apiKey: 1 of the 2 shares it takes are good\n/)
      expect(error.message).toMatch(reason)
      expect(error.message).toMatch(/\n {2}holder 2: down$/)
      expect(shown(error)).not.toContain('sk-live')
      expect(few.asked).toEqual([0, 1, 2])
      expect(failed.sent).toEqual([])
    },
  )

  test('names the holder that lied in the log, and verifies nothing where the shares combine', async () => {
    // The proof is wrong, but the share is right.
    const wrongProof = tampered(share => ({ ...share, F_i: share.E_i as string }))
    const wrongShare = tampered(share => ({
      ...share,
      U_i: JSON.parse(formatPublicKey(publicKey)).H,
    }))
    for (const [trick, asks, warnings] of [
      [wrongProof, [0, 1], 0],
      [wrongShare, [0, 1, 2], 1],
    ] as const) {
      const { vault, asked } = await vaultOf({ apiKey: SECRET }, { 1: trick })
      const { log, lines } = keepLog()
      const { reply, sent } = ask(vault, { scope: { ...callOf().scope, log } })
      await reply
      expect(sent[0]?.released.get('apiKey')).toBe(SECRET)
      expect(asked).toEqual(asks)
      const lied = lines.filter(line =>
        line.startsWith('holder 1 gave no share of secret apiKey: '),
      )
      expect(lied).toHaveLength(warnings)
    }
  })

  test('blames no holder where the message was changed', async () => {
    const { vault, asked } = await vaultOf()
    const stored = JSON.parse(await vault.ciphertext(nameOf('apiKey'))) as { SymCtxt: string }
    const message = Buffer.from(stored.SymCtxt, 'base64').map(byte => byte ^ 1)
    const changed = JSON.stringify({ ...stored, SymCtxt: Buffer.from(message).toString('base64') })
    const { log, lines } = keepLog()
    const call = { scope: { ...callOf().scope, log } }
    const error = await failureOf(ask({ ...vault, ciphertext: async () => changed }, call).reply)
    expect(error).toMatchObject({ code: 'TDH2' })
    expect(error.message).toMatch(/SymCtxt: message authentication failed/)
    expect([asked, lines]).toEqual([[0, 1], []])
  })

  test('rejects a secret of another owner without reading it', async () => {
    const { vault, asked } = await vaultOf()
    const { reply, sent } = ask(
      { ...vault, ciphertext: () => Promise.reject(new Error('asked')) },
      {
        secrets: [nameOf('apiKey', OTHER)],
      },
    )
    expect(await failureOf(reply)).toMatchObject({
      code: 'VAULT',
      message: `secret apiKey: its owner ${OTHER} is not ${OWNER}, whom this request is made for`,
    })
    expect([asked, sent]).toEqual([[], []])
  })

  test('rejects a ciphertext that was stored for another owner, or for none', async () => {
    for (const label of [ownerLabel(OTHER), new Uint8Array(32)]) {
      const { vault, asked } = await vaultOf({ apiKey: SECRET }, {}, label)
      expect(await failureOf(ask(vault).reply)).toMatchObject({
        code: 'VAULT',
        message: `secret apiKey: its ciphertext was not made for ${OWNER}`,
      })
      expect(asked).toEqual([])
    }
  })

  test('rejects a value that is not a ciphertext of this vault', async () => {
    const { vault } = await vaultOf()
    const elsewhere = await encrypt(foreign.publicKey, Buffer.from('x'), {
      label: ownerLabel(OWNER),
    })
    const stored = JSON.parse(await vault.ciphertext(nameOf('apiKey')))
    for (const text of ['', 'no JSON', '{}', JSON.stringify({ ...stored, TDH2Ctxt: elsewhere })]) {
      const error = await failureOf(ask({ ...vault, ciphertext: async () => text }).reply)
      expect(error).toMatchObject({
        code: 'VAULT',
        message: 'secret apiKey: its entry is not a ciphertext of this vault',
      })
    }
  })

  test('passes on the error of a missing secret', async () => {
    const { vault } = await vaultOf()
    const { reply, sent } = ask(vault, { secrets: [nameOf('apiKey'), nameOf('missing')] })
    expect(await failureOf(reply)).toMatchObject({
      code: 'VAULT',
      message: 'key does not exist: missing',
    })
    expect(sent).toEqual([])
  })

  test('rejects a value that is not UTF-8, without showing its bytes', async () => {
    const { vault } = await vaultOf({ apiKey: Buffer.from('sk-live\xff', 'latin1') })
    const error = await failureOf(ask(vault).reply)
    expect(error).toMatchObject({
      code: 'VAULT',
      message: 'secret apiKey: its value is not valid UTF-8',
    })
    expect(shown(error)).not.toMatch(/sk-live|73, 6b/)
  })

  test('gives up waiting for holders when the time of the request is over', async () => {
    const { vault } = await vaultOf({ apiKey: SECRET }, { 0: () => new Promise(() => {}) })
    const call = callOf({ secrets: [nameOf('apiKey')], timeout: 30 })
    const { reply, sent } = carry([limits(), secrets({ vault })], call)
    expect(await failureOf(reply)).toMatchObject({
      name: 'VaultError',
      message: 'the secrets were not released in time',
    })
    expect(sent).toEqual([])
  })

  test('gives up waiting when the caller aborts, with the caller’s reason', async () => {
    const caller = new AbortController()
    const { vault } = await vaultOf({ apiKey: SECRET }, { 0: () => new Promise(() => {}) })
    const { reply } = ask(vault, { signal: caller.signal })
    const reason = new DataStreamsError('the enclave was closed', { code: 'CLOSED' })
    caller.abort(reason)
    expect(await failureOf(reply)).toBe(reason)
  })

  test('redacts an error that repeats a secret, and passes on every other', async () => {
    const { vault } = await vaultOf()
    const other = new EnclaveError('the key is wrong', { code: 'LIMIT' })
    const leaking = new EnclaveError('the key is wrong', { cause: new Error(`not ${SECRET}`) })
    const failWith = (thrown: unknown) =>
      failureOf(
        carry([secrets({ vault })], callOf({ secrets: [nameOf('apiKey')] }), () =>
          Promise.reject(thrown),
        ).reply,
      )
    expect(await failWith(other)).toBe(other)
    const redacted = await failWith(leaking)
    expect(redacted.message).toMatch(/the reason repeats a secret$/)
    expect(shown(redacted)).not.toContain('sk-live')
  })
})
