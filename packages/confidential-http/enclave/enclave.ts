import {
  type Checked,
  checkBoolean,
  checkPlugins,
  checkSignal,
  checkText,
  composeCall,
  createLifetime,
  createLog,
  DataStreamsError,
  describeStack,
  type Handler,
  type Lifetime,
  type Log,
  oneOf,
  optional,
  type Rule,
  readOptions,
  type Schema,
  type Stack,
  setUp,
  unchecked,
  ValidationError,
  withDefault,
} from 'sluice/core'
import { checkOwner, formatKey, parseKey } from 'sluice/internal'
import {
  type ConfidentialCall,
  type ConfidentialReply,
  EnclaveError,
  type EnclavePlugin,
  type LimitsOptions,
  limits,
  type NetworkPolicyOptions,
  networkPolicy,
} from 'sluice/plugins/confidential-http'
import { logOutcome, withSent } from '../outcome.js'
import { durationMs } from '../request/duration.js'
import { type ConfidentialHTTPRequestMessage, TYPE_NAMES } from '../request/message.js'
import { normalizeRequest } from '../request/normalize-request.js'
import type { CallFields } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import { askUpstream } from './upstream.js'

/** The settings of an enclave, which can be sent to another thread. */
export interface EnclaveSettings {
  /** The vault's directory. */
  readonly vault: string
  /** Where requests may go. @default public addresses, over HTTPS */
  readonly network?: NetworkPolicyOptions
  /** The limits of size and time. */
  readonly limits?: LimitsOptions
  /**
   * Refuses secrets that were stored without a policy. By default such a secret may go anywhere,
   * and a warning is logged.
   * @default false
   */
  readonly requirePolicies?: boolean
  /**
   * What to do if a request has a header that the policy of its secret does not allow. With `warn`,
   * the request is made, and a warning is logged once for each secret and header.
   * @default 'refuse'
   */
  readonly policyHeaders?: 'refuse' | 'warn'
  /**
   * The URL of a module. Its default export makes the stack, and is called like
   * `confidentialPreset`.
   * @default `confidentialPreset`
   */
  readonly stack?: string
  /**
   * A file that remembers the newest state of the vault. See the same option of `openVault`.
   * @default none
   */
  readonly rollbackState?: string
  /**
   * The secret key of this enclave towards the vault's holders. It is needed if the holders are
   * separate processes, which recognise the enclave by this key.
   * @default none
   */
  readonly callerSecretKey?: string
  /** Opens a vault even if other users can read or write its files. @default false */
  readonly insecurePermissions?: boolean
}

/** The option rules for these settings. */
export const settingRules: {
  readonly [Name in keyof EnclaveSettings]-?: Rule<EnclaveSettings[Name]>
} = {
  vault: checkText,
  network: optionsOf(networkPolicy),
  limits: optionsOf(limits),
  requirePolicies: withDefault(false, checkBoolean),
  policyHeaders: withDefault('refuse', oneOf('refuse', 'warn')),
  stack: optional(checkText),
  rollbackState: optional(checkText),
  callerSecretKey: optional((field, given) => formatKey(parseKey(field, given))),
  insecurePermissions: withDefault(false, checkBoolean),
}

/**
 * Makes the option rule for an object with the options of a plugin. The plugin checks the options.
 */
function optionsOf<Options>(
  plugin: (options?: Options) => EnclavePlugin,
): Rule<Options | undefined> {
  return function checkOptionsOf(_, given) {
    plugin(given as Options | undefined)
    return given as Options | undefined
  }
}

/** Options of `createEnclave`. */
export interface EnclaveOptions {
  /** The plugins of the stack. The plugin nearest to the caller comes first. */
  readonly plugins: readonly EnclavePlugin[]
}

/** The party that a request is made for. */
export interface Caller {
  /**
   * The name of the caller in audits, such as a public key: at most 128 visible ASCII characters.
   */
  readonly name?: string
  /**
   * The owner of the secrets that may be used. It is an address of 40 hexadecimal digits, with or
   * without 0x.
   */
  readonly owner: string
  /** When the request was made, in milliseconds of Unix time. @default now */
  readonly startedAt?: number
  /** A signal that aborts when the caller cancels. */
  readonly signal?: AbortSignal
}

const callerRules = {
  name: optional(checkCallerName),
  owner: checkOwner,
  startedAt: unchecked<number | undefined>,
  signal: checkSignal,
} satisfies Schema<Caller>

/**
 * An enclave, which makes requests with secrets. The secrets go only to the API of each request.
 */
export interface Enclave {
  /** The plugins of the enclave. Its text form is a drawing of the stack. */
  readonly stack: Stack
  /** Checks a request completely, then makes it. */
  send(request: unknown, caller: Caller): Promise<HTTPResponse>
  /** Adds a listener to the log of the enclave and its plugins. */
  listen(listener: Log): void
  /** Closes the enclave. Every open request fails. */
  close(): void
}

/**
 * Makes an enclave from a stack of plugins. The enclave is only as confidential as the thread or
 * process that it runs in.
 */
export function createEnclave(options: EnclaveOptions): Enclave {
  return new CallEnclave(options)
}

/** An enclave that also accepts calls whose first layers have already run outside the enclave. */
export class CallEnclave implements Enclave {
  readonly stack: Stack
  readonly listen: Enclave['listen']
  readonly #log: Log
  readonly #life: Lifetime = createLifetime()
  readonly #handler: Handler<ConfidentialCall, ConfidentialReply>
  /** Whether a layer has ever made its own call. Such a call belongs to no known request. */
  #hasUnknownCall = false

  constructor(options: EnclaveOptions) {
    const given = readOptions('createEnclave', options, {
      plugins: unchecked<readonly EnclavePlugin[]>,
    })
    checkPlugins(given.plugins)
    const plugins: readonly EnclavePlugin[] = [...given.plugins]
    const { log, listen } = createLog()
    this.#log = log
    this.listen = listen
    this.stack = describeStack(plugins, { wire: 'https://…' })
    setUp(plugins, { stack: this.stack, log, listen, life: this.#life })
    this.#handler = composeCall(plugins, call => this.#askUpstream(call), { isReply, copy })
  }

  readonly send: Enclave['send'] = async (input, caller) => {
    const life = createLifetime(this.#life, caller?.signal)
    try {
      const { message, fields } = this.#read(input, caller, life)
      const { startedAt } = fields
      const response = this.#ask(fields, life).then(toResponse)
      return await logOutcome(this.#log, message, { startedAt, signal: life.signal }, response)
    } finally {
      life.end()
    }
  }

  /**
   * Carries out a call. Errors tell whether the call may have been sent. Does not log the outcome.
   */
  async carryOut(
    fields: CallFields,
    { signal, onConnected }: { readonly signal: AbortSignal; readonly onConnected: () => void },
  ): Promise<ConfidentialReply> {
    const life = createLifetime(this.#life, signal)
    try {
      return await this.#ask(fields, life, onConnected)
    } finally {
      life.end()
    }
  }

  readonly close = (): void => this.#life.end(closed())

  /** Checks a request and its caller. If this throws, nothing was sent. */
  #read(
    input: unknown,
    caller: Caller,
    life: Lifetime,
  ): { readonly message: ConfidentialHTTPRequestMessage; readonly fields: CallFields } {
    try {
      const message = normalizeRequest(input)
      const fields = toFields(message, readOptions('caller', caller, callerRules, 'caller.'))
      if (life.isOver) throw life.reason
      return { message, fields }
    } catch (thrown) {
      throw this.#mark(thrown, false)
    }
  }

  /**
   * Runs a call through the stack. If the call fails, marks on the error whether the call may have
   * been sent.
   */
  async #ask(
    fields: CallFields,
    { signal, defer }: Lifetime,
    onConnected?: () => void,
  ): Promise<ConfidentialReply> {
    let isSent = false
    try {
      return await this.#handler({
        ...fields,
        headers: new Headers(),
        released: new Map(),
        policies: new Map(),
        connection: {},
        onConnected() {
          isSent = true
          onConnected?.()
        },
        signal,
        scope: { log: this.#log, signal, defer },
      })
    } catch (thrown) {
      throw this.#mark(thrown, isSent || this.#hasUnknownCall)
    }
  }

  /**
   * Marks on an error whether the call may have been sent. When the enclave closes, many calls fail
   * with the same reason, so each call gets its own error.
   */
  #mark(thrown: unknown, isSent: boolean): unknown {
    const { isOver, reason } = this.#life
    return withSent(isOver && thrown === reason ? closed() : thrown, isSent)
  }

  async #askUpstream(call: ConfidentialCall): Promise<ConfidentialReply> {
    // A layer that encrypts the answer sets `encryptOutput` to false. If it is still true, no layer
    // encrypts.
    if (call.encryptOutput)
      throw new EnclaveError('encryptOutput is true, but no plugin of the stack encrypts', {
        code: 'ENCRYPTION',
      })
    if (call.onConnected === undefined) this.#hasUnknownCall = true
    return askUpstream(call)
  }
}

function checkCallerName(field: string, name: unknown): string {
  if (typeof name === 'string' && /^[!-~]{1,128}$/.test(name)) return name
  throw new ValidationError(`${field} must be 1 to 128 visible characters of ASCII`)
}

function isReply(reply: unknown): boolean {
  return typeof reply === 'object' && reply !== null && 'status' in reply && 'body' in reply
}

function copy(call: ConfidentialCall): ConfidentialCall {
  return { ...call, headers: new Headers(call.headers) }
}

function closed(): DataStreamsError {
  return new DataStreamsError('the enclave was closed', { code: 'CLOSED' })
}

function toFields(
  { request, vaultDonSecrets }: ConfidentialHTTPRequestMessage,
  { owner, name, startedAt = Date.now() }: Checked<typeof callerRules>,
): CallFields {
  const { body, timeout, customRootCaCertPem: pem } = request
  return {
    operation: 'SendRequest',
    method: request.method,
    url: request.url,
    multiHeaders: new Map(
      Object.entries(request.multiHeaders).map(([name, { values }]) => [name, values]),
    ),
    ...(body.case === undefined ? {} : { body: body.value }),
    ...(name === undefined ? {} : { caller: name }),
    owner,
    secrets: vaultDonSecrets.map(({ key, namespace, owner: named }) => ({
      key,
      namespace,
      owner: named === undefined ? owner : named.replace(/^0x/i, '').toLowerCase(),
    })),
    publicValues: new Map(Object.entries(request.templatePublicValues)),
    ...(pem.length === 0 ? {} : { customRootCaCertPem: new TextDecoder().decode(pem) }),
    ...(timeout === undefined ? {} : { timeout: durationMs(timeout) }),
    startedAt,
    encryptOutput: request.encryptOutput,
    ...(request.requestId === undefined ? {} : { boundTo: request.requestId }),
  }
}

function toResponse({ status, multiHeaders, body }: ConfidentialReply): HTTPResponse {
  return {
    $typeName: TYPE_NAMES.HTTPResponse,
    statusCode: status,
    body,
    multiHeaders: Object.fromEntries(
      [...multiHeaders].map(([header, values]) => [
        header,
        { $typeName: TYPE_NAMES.HeaderValues, values: [...values] },
      ]),
    ),
  }
}
