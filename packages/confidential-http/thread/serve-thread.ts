import host from 'node:process'
import { workerData } from 'node:worker_threads'
import type { Log } from 'sluice/core'
import { asError } from 'sluice/core'
import type { ConfidentialReply } from 'sluice/plugins/confidential-http'
import { EnclaveError } from 'sluice/plugins/confidential-http'
import { durationMs } from '../request/duration.js'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'
import { withSent } from '../sent.js'
import type { HTTPResponse } from '../types.js'
import { type Failure, kindOfError, toFailure } from './failure.js'
import type {
  CallFields,
  FromThread,
  Question,
  ReleasedSecret,
  SecretKey,
  ThreadData,
  ToThread,
} from './thread-messages.js'
import { createTickQueue } from './tick-queue.js'

/**
 * Milliseconds that the event loop runs on before the thread exits, for the finalizers of the platform's fetch: the first
 * releases of Node 20 hang, using a whole core, if a thread exits with a finalizer pending.
 */
const LAST_TICKS = 10

/** Answers one request of the calling thread. */
export type Answer = (
  request: ConfidentialHTTPRequestMessage,
  facts: { readonly startedAt: number; readonly signal: AbortSignal },
) => Promise<HTTPResponse>

/** Carries out a call that comes from layers outside the thread. */
export type CarryOut = (
  call: CallFields,
  facts: { readonly signal: AbortSignal; readonly onConnected: () => void },
) => Promise<ConfidentialReply>

/** The service of a thread. */
export interface Service {
  readonly answer: Answer
  /** Carries out calls, if layers outside the thread may send some. */
  readonly carryOut?: CarryOut
  /** Reads the values of secrets, if the calling thread may have them. */
  readSecrets?(names: readonly SecretKey[]): Promise<readonly ReleasedSecret[]>
}

/** Runs in its own thread: opens a service, answers each request with it, and wakes the calling thread. */
export function serveThread<Settings>(
  open: (settings: Settings, log: Log) => Promise<Service>,
): void {
  const { settings, port, counter, levels } = workerData as ThreadData<Settings>
  const sent = new Int32Array(counter)
  const running = new Map<
    number,
    { readonly controller: AbortController; readonly ended: Promise<void> }
  >()
  const waitForTick = createTickQueue()

  function post(message: FromThread, transfer: readonly ArrayBuffer[] = []): void {
    port.postMessage(message, transfer)
    Atomics.add(sent, 0, 1)
    Atomics.notify(sent, 0)
  }

  // The platform would print an uncaught error or pass it to the calling thread, with any secret it holds.
  function fail(thrown: unknown): void {
    post({ type: 'end', why: `nobody caught an error, ${kindOfError(thrown)}` })
    host.exit(70)
  }
  host.on('uncaughtException', fail)
  host.on('unhandledRejection', fail)
  host.on('exit', code => post({ type: 'end', why: `exit code ${code}` }))

  const log: Log = Object.fromEntries(
    levels.map(level => [
      level,
      (message: string, facts?: Readonly<Record<string, unknown>>) =>
        post({ type: 'log', level, message, facts }),
    ]),
  )
  const opened = open(settings, log)
  const postOpened = (failure?: Failure): void => post({ type: 'opened', failure })
  opened.then(
    () => postOpened(),
    thrown => postOpened(toFailure(withSent(asError(thrown), false))),
  )

  async function answer(
    { id, startedAt, ...question }: Exclude<ToThread, { type: 'cancel' }>,
    signal: AbortSignal,
  ): Promise<void> {
    try {
      const service = await opened
      const isLate = (): boolean => isTimeUp(question, startedAt)
      await waitForTick(() => signal.aborted || isLate())
      signal.throwIfAborted()
      if (isLate()) throw expired()
      const response = await askService(service, question, {
        startedAt,
        signal,
        onConnected: () => post({ type: 'connected', id }),
      })
      post({ type: 'response', id, response }, ownMemory(response))
    } catch (thrown) {
      post({ type: 'failure', id, failure: toFailure(thrown) })
    }
  }

  /** Exits once no file is being opened: the file would stay open for as long as the process lives. */
  async function leave(): Promise<void> {
    for (const { controller } of running.values()) controller.abort()
    await Promise.allSettled([opened, ...[...running.values()].map(({ ended }) => ended)])
    setInterval(() => {
      if (!host.getActiveResourcesInfo().some(name => name.startsWith('FSReq'))) host.exit()
    }, LAST_TICKS)
  }

  port.on('close', () => void leave())
  port.on('message', (message: ToThread) => {
    const { id } = message
    if (message.type === 'cancel') return running.get(id)?.controller.abort()
    const controller = new AbortController()
    const ended = answer(message, controller.signal).finally(() => running.delete(id))
    running.set(id, { controller, ended })
  })
}

/** What a service is told of a question. */
interface Facts {
  readonly startedAt: number
  readonly signal: AbortSignal
  readonly onConnected: () => void
}

function askService(service: Service, question: Question, facts: Facts): Promise<unknown> {
  switch (question.type) {
    case 'request':
      return service.answer(question.request, facts)
    case 'call':
      if (service.carryOut === undefined) throw new EnclaveError('the thread carries out no calls')
      return service.carryOut(question.call, facts)
    case 'secrets':
      return readSecrets(service, question.names)
  }
}

/** The memory of an answer's body, if nothing else is in it: it changes hands, and no copy stays behind. */
function ownMemory(response: unknown): readonly ArrayBuffer[] {
  const { body } = (response ?? {}) as { readonly body?: unknown }
  return body instanceof Uint8Array &&
    body.buffer instanceof ArrayBuffer &&
    body.byteLength > 0 &&
    body.byteLength === body.buffer.byteLength
    ? [body.buffer]
    : []
}

async function readSecrets(
  service: Service,
  names: readonly SecretKey[],
): Promise<readonly ReleasedSecret[]> {
  if (service.readSecrets === undefined)
    throw new EnclaveError('the enclave of this runtime gives its callers no secrets', {
      code: 'CAPABILITY',
      mayHaveBeenSent: false,
    })
  try {
    return await service.readSecrets(names)
  } catch (thrown) {
    throw withSent(asError(thrown), false)
  }
}

function isTimeUp(question: Question, startedAt: number): boolean {
  const timeout = question.type === 'request' ? question.request.request.timeout : undefined
  return timeout !== undefined && Date.now() > startedAt + durationMs(timeout)
}

function expired(): EnclaveError {
  return new EnclaveError(
    'the time for the request was up before it could begin: nothing was sent',
    {
      code: 'EXPIRED',
      mayHaveBeenSent: false,
    },
  )
}
