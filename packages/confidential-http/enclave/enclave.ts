import type { ScopeFacts } from 'sluice/core'
import {
  checkOptions,
  checkPlugins,
  composeCall,
  createLifetime,
  createLog,
  DataStreamsError,
  describeStack,
  type Log,
  type OptionNames,
  type Stack,
  setUp,
  ValidationError,
} from 'sluice/core'
import { checkOwner } from 'sluice/internal'
import type {
  ConfidentialCall,
  ConfidentialReply,
  EnclavePlugin,
} from 'sluice/plugins/confidential-http'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { logOutcome } from '../log-outcome.js'
import { durationMs } from '../request/duration.js'
import { type ConfidentialHTTPRequestMessage, TYPE_NAMES } from '../request/message.js'
import { normalizeRequest } from '../request/normalize-request.js'
import { withSent } from '../sent.js'
import type { CallFields } from '../thread/thread-messages.js'
import type { HTTPResponse } from '../types.js'
import { askUpstream } from './upstream.js'

/** Options of `createEnclave`. */
export interface EnclaveOptions {
  /** The stack; the plugin nearest the caller comes first. */
  readonly plugins: readonly EnclavePlugin[]
}

/** The party that a request is made for. */
export interface Caller {
  /** Who makes the request, for audits: a text of at most 128 visible characters of ASCII, such as a public key. */
  readonly name?: string
  /** The owner of the secrets that may be used: an address, as 40 hexadecimal digits, with or without 0x. */
  readonly owner: string
  /** When the request was made, in milliseconds of Unix time. @default now */
  readonly startedAt?: number
  /** Aborts when the caller cancels. */
  readonly signal?: AbortSignal
}

const callerNames: OptionNames<Caller> = {
  name: true,
  owner: true,
  startedAt: true,
  signal: true,
}

/** Makes requests with secrets that never leave it. */
export interface Enclave {
  /** The plugins of the enclave; its text draws them. */
  readonly stack: Stack
  /** Makes one request, after checking it completely. */
  send(request: unknown, caller: Caller): Promise<HTTPResponse>
  /** Adds a listener to the log of the enclave and its plugins. */
  listen(listener: Log): void
  /** Ends every request. */
  close(): void
}

/** Makes an enclave from a stack of plugins. It is as confidential as the thread or process it runs in. */
export function createEnclave(options: EnclaveOptions): Enclave {
  return createCallEnclave(options)
}

/** An enclave that also takes calls whose first layers run elsewhere. */
export interface CallEnclave extends Enclave {
  /** Carries out a call. Errors say whether it may have been sent; nothing is logged of its outcome. */
  carryOut(
    fields: CallFields,
    facts: { readonly signal: AbortSignal; readonly onConnected: () => void },
  ): Promise<ConfidentialReply>
}

/** Makes an enclave that also takes calls. */
export function createCallEnclave(options: EnclaveOptions): CallEnclave {
  const { plugins: given } = checkOptions('createEnclave', options, { plugins: true })
  checkPlugins(given)
  const plugins: readonly EnclavePlugin[] = [...given]
  const { log, listen } = createLog()
  const life = createLifetime()
  const stack = describeStack(plugins, { wire: 'https://…' })
  /** True once a layer has made a call of its own, which belongs to no known request. */
  let hasUnknownCall = false
  setUp(plugins, { stack, log, listen, life })
  async function ask(call: ConfidentialCall): Promise<ConfidentialReply> {
    // A layer that encrypts the answer sets it to false.
    if (call.encryptOutput)
      throw new EnclaveError('encryptOutput is true, but no plugin of the stack encrypts', {
        code: 'ENCRYPTION',
      })
    if (call.onConnected === undefined) hasUnknownCall = true
    return askUpstream(call)
  }
  const handler = composeCall(plugins, ask, { isReply, copy })

  /** Runs one call, for as long as it lives, and marks on its error whether it may have been sent. */
  async function run<Outcome>(
    signals: readonly (AbortSignal | undefined)[],
    work: (
      scope: ScopeFacts,
      parts: { onConnected(): void; ask(call: ConfidentialCall): Promise<ConfidentialReply> },
    ) => Promise<Outcome>,
  ): Promise<Outcome> {
    const { signal, defer, end } = createLifetime(life, ...signals)
    let isSent = false
    /** Closing the enclave fails many calls with one reason, and each call marks its own error. */
    function markSent(thrown: unknown): unknown {
      return withSent(thrown === life.signal.reason ? closed() : thrown, isSent || hasUnknownCall)
    }
    const parts = {
      onConnected(): void {
        isSent = true
      },
      async ask(call: ConfidentialCall): Promise<ConfidentialReply> {
        try {
          return await handler(call)
        } catch (thrown) {
          throw markSent(thrown)
        }
      },
    }
    try {
      return await work({ log, signal, defer }, parts)
    } catch (thrown) {
      throw markSent(thrown)
    } finally {
      end()
    }
  }

  const send = (input: unknown, caller: Caller): Promise<HTTPResponse> =>
    run([caller?.signal], async function sendInput(scope, { ask, onConnected }) {
      const message = normalizeRequest(input)
      const { owner: given, name } = checkOptions('caller', caller, callerNames)
      const owner = checkOwner('caller.owner', given)
      if (name !== undefined) checkName(name)
      const { signal } = scope
      if (signal.aborted) throw signal.reason
      const call = withScope(toFields(message, { ...caller, owner }), scope, onConnected)
      const response = ask(call).then(toResponse)
      return logOutcome(log, message, { startedAt: call.startedAt, signal }, response)
    })

  return {
    stack,
    send,
    carryOut: (fields, { signal, onConnected }) =>
      run([signal], (scope, parts) =>
        parts.ask(
          withScope(fields, scope, () => {
            parts.onConnected()
            onConnected()
          }),
        ),
      ),
    listen,
    close: () => life.end(closed()),
  }
}

function checkName(name: unknown): void {
  if (typeof name !== 'string' || !/^[!-~]{1,128}$/.test(name))
    throw new ValidationError('caller.name must be 1 to 128 visible characters of ASCII')
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

/** Adds the fields that a call begins with, and its life. */
function withScope(
  fields: CallFields,
  scope: ScopeFacts,
  onConnected: () => void,
): ConfidentialCall {
  return {
    ...fields,
    headers: new Headers(),
    released: new Map(),
    policies: new Map(),
    connection: {},
    onConnected,
    signal: scope.signal,
    scope,
  }
}

function toFields(
  { request, vaultDonSecrets }: ConfidentialHTTPRequestMessage,
  caller: Caller,
): CallFields {
  const { body, timeout, customRootCaCertPem: pem } = request
  const { owner, name } = caller
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
    startedAt: caller.startedAt ?? Date.now(),
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
