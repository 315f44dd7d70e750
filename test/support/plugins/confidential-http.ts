import { composeCall } from '../../../core/compose.js'
import type { Log } from '../../../core/log.js'
import type {
  ConfidentialCall,
  ConfidentialReply,
  EnclavePlugin,
} from '../../../plugins/confidential-http/call.js'

export const OWNER = '00112233445566778899aabbccddeeff00112233'

export function callOf(fields: Partial<ConfidentialCall> = {}): ConfidentialCall {
  const { signal } = new AbortController()
  return {
    operation: 'SendRequest',
    method: 'POST',
    url: 'https://api.example/',
    headers: new Headers(),
    multiHeaders: new Map(),
    owner: OWNER,
    secrets: [],
    released: new Map(),
    policies: new Map(),
    publicValues: new Map(),
    startedAt: Date.now(),
    encryptOutput: false,
    connection: {},
    signal,
    scope: { log: {}, signal, defer() {} },
    ...fields,
  }
}

export function replyOf(fields: Partial<ConfidentialReply> = {}): ConfidentialReply {
  return {
    status: 200,
    multiHeaders: new Map(),
    body: new Uint8Array(),
    ...fields,
  }
}

/** Sends a call through plugins to a wire that remembers it. */
export function carry(
  plugins: readonly EnclavePlugin[],
  call: ConfidentialCall,
  answer: (call: ConfidentialCall) => ConfidentialReply | Promise<ConfidentialReply> = () =>
    replyOf(),
): { readonly reply: Promise<ConfidentialReply>; readonly sent: readonly ConfidentialCall[] } {
  const sent: ConfidentialCall[] = []
  const handler = composeCall(
    plugins,
    async function wire(given) {
      sent.push(given)
      return answer(given)
    },
    { isReply: () => true, copy: given => ({ ...given, headers: new Headers(given.headers) }) },
  )
  return { reply: handler(call), sent }
}

/** A log that collects its lines. */
export function keepLog(): { readonly log: Log; readonly lines: string[] } {
  const lines: string[] = []
  const write = (message: string, facts?: object): void =>
    void lines.push(`${message} ${JSON.stringify(facts)}`)
  return { log: { debug: write, info: write, warn: write, error: write }, lines }
}
