import host from 'node:process'
import { workerData } from 'node:worker_threads'
import { asError, type Log } from 'sluice/core'
import { type ConfidentialReply, EnclaveError } from 'sluice/plugins/confidential-http'
import { durationMs } from '../request/duration.js'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'
import { kindOfError, toFailure, withSent } from '../outcome.js'
import type { HTTPResponse } from '../types.js'
import type {
  CallFields,
  FromThread,
  Question,
  ReleasedSecret,
  SecretKey,
  ThreadData,
  ToThread,
} from './thread-messages.js'

/**
 * Milliseconds that the event loop runs on before the thread exits, for the finalizers of the
 * platform's fetch: the first releases of Node 20 hang, using a whole core, if a thread exits with
 * a finalizer pending.
 */
const LAST_TICKS = 10

/** What a service is told of a question. */
export interface Facts {
  /** In milliseconds of Unix time. */
  readonly startedAt: number
  readonly signal: AbortSignal
  /** To call when the API is connected: from then on the API may have the request. */
  readonly onConnected: () => void
}

/** The service of a thread: a function for each type of question. */
export interface Service {
  request(request: ConfidentialHTTPRequestMessage, facts: Facts): Promise<HTTPResponse>
  /** Absent where no layers outside the thread may send calls. */
  call?(call: CallFields, facts: Facts): Promise<ConfidentialReply>
  /** Absent where the calling thread may have no values of secrets. */
  secrets?(names: readonly SecretKey[]): Promise<readonly ReleasedSecret[]>
}

/**
 * Runs in its own thread: opens a service, answers each request with it, and wakes the calling
 * thread.
 */
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

  // The platform would print an uncaught error or pass it to the calling thread, with any secret it
  // holds.
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
  opened.then(
    () => post({ type: 'opened' }),
    thrown => post({ type: 'opened', failure: toFailure(withSent(asError(thrown), false)) }),
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
      if (isLate())
        throw new EnclaveError(
          'the time for the request was up before it could begin: nothing was sent',
          { code: 'EXPIRED', mayHaveBeenSent: false },
        )
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

  /**
   * Exits once no file is being opened: the file would stay open for as long as the process lives.
   */
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

async function askService(service: Service, question: Question, facts: Facts): Promise<unknown> {
  switch (question.type) {
    case 'request':
      return service.request(question.request, facts)
    case 'call':
      if (service.call === undefined) throw new EnclaveError('the thread carries out no calls')
      return service.call(question.call, facts)
    case 'secrets':
      try {
        if (service.secrets !== undefined) return await service.secrets(question.names)
      } catch (thrown) {
        throw withSent(asError(thrown), false)
      }
      throw new EnclaveError('the enclave of this runtime gives its callers no secrets', {
        code: 'CAPABILITY',
        mayHaveBeenSent: false,
      })
  }
}

/**
 * The memory of an answer's body, if nothing else is in it: it changes hands, and no copy stays
 * behind.
 */
function ownMemory(response: unknown): readonly ArrayBuffer[] {
  const { body } = (response ?? {}) as { readonly body?: unknown }
  return body instanceof Uint8Array &&
    body.buffer instanceof ArrayBuffer &&
    body.byteLength > 0 &&
    body.byteLength === body.buffer.byteLength
    ? [body.buffer]
    : []
}

function isTimeUp(question: Question, startedAt: number): boolean {
  const timeout = question.type === 'request' ? question.request.request.timeout : undefined
  return timeout !== undefined && Date.now() > startedAt + durationMs(timeout)
}

/**
 * Makes a function that resolves for one waiter per tick of the event loop, in order, so that
 * timers and answers run between expensive tasks. A waiter whose `isCancelled` returns true by then
 * uses up no tick.
 */
function createTickQueue(): (isCancelled: () => boolean) => Promise<void> {
  let waiting: { readonly isCancelled: () => boolean; readonly resolve: () => void }[] = []

  function resolveNext(): void {
    const cancelled = new Set(waiting.filter(each => each.isCancelled()))
    const [next, ...others] = waiting.filter(each => !cancelled.has(each))
    waiting = others
    for (const { resolve } of cancelled) resolve()
    next?.resolve()
    if (waiting.length > 0) setImmediate(resolveNext)
  }

  return function waitForTick(isCancelled) {
    return new Promise(resolve => {
      if (waiting.push({ isCancelled, resolve }) === 1) setImmediate(resolveNext)
    })
  }
}
