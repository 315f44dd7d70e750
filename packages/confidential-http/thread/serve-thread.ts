import host from 'node:process'
import { workerData } from 'node:worker_threads'
import { abortable, asError, type Log, withTimeout } from 'sluice/core'
import { type ConfidentialReply, EnclaveError, VaultError } from 'sluice/plugins/confidential-http'
import { kindOfError, toFailure, withSent } from '../outcome.js'
import { durationMs } from '../request/duration.js'
import type { ConfidentialHTTPRequestMessage } from '../request/message.js'
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
import { WorkMeter } from './work-meter.js'

/**
 * How many milliseconds the event loop continues before the thread exits, so that the finalizers of
 * the platform's `fetch` can run. The first releases of Node 20 hang and use a whole core if a
 * thread exits while a finalizer is pending.
 */
const LAST_TICKS = 10

/** The facts about a question that a service gets. */
export interface Facts {
  /** When the question was sent, in milliseconds of Unix time. */
  readonly startedAt: number
  readonly signal: AbortSignal
  /**
   * The service calls this once it has connected to the API. From then on, the API may have
   * received the request.
   */
  readonly onConnected: () => void
}

/** The service of a thread: a function for each type of question. */
export interface Service {
  request(request: ConfidentialHTTPRequestMessage, facts: Facts): Promise<HTTPResponse>
  /** Carries out a call. Absent if no layers outside the thread may send calls. */
  call?(call: CallFields, facts: Facts): Promise<ConfidentialReply>
  /** Returns the values of secrets. Absent if the calling thread must not get such values. */
  secrets?(names: readonly SecretKey[], signal: AbortSignal): Promise<readonly ReleasedSecret[]>
}

/**
 * Serves questions inside a thread. Opens a service, answers each question with it, and wakes the
 * calling thread.
 */
export function serveThread<Settings>(
  open: (settings: Settings, log: Log) => Promise<Service>,
): void {
  const { settings, port, counter, levels, isMetered } = workerData as ThreadData<Settings>
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

  // Without these listeners, the platform would print an uncaught error or pass it to the calling
  // thread. The error may contain a secret.
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
  const meter = isMetered
    ? new WorkMeter((caller, ms) => post({ type: 'work', caller, ms }))
    : undefined
  const opened = open(settings, log)
  opened.then(
    () => post({ type: 'opened' }),
    thrown => post({ type: 'opened', failure: toFailure(withSent(asError(thrown), false)) }),
  )

  async function answer(
    { id, startedAt, ...question }: Exclude<ToThread, { type: 'cancel' | 'live' }>,
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
   * Ends all questions, then exits once no file is being opened. Otherwise the file would stay open
   * as long as the process lives.
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
    if (message.type === 'live') return post({ type: 'alive' })
    const { id } = message
    if (message.type === 'cancel') return running.get(id)?.controller.abort()
    const controller = new AbortController()
    const begin = (): Promise<void> => answer(message, controller.signal)
    const isCall = message.type === 'call' && meter !== undefined
    const begun = isCall ? meter.run(message.call.caller ?? message.call.owner, begin) : begin()
    const ended = begun.finally(() => running.delete(id))
    running.set(id, { controller, ended })
  })
}

/** Carries out a question. Rejects if the service has nothing for its type. */
export async function askService(
  service: Service,
  question: Question,
  facts: Facts,
): Promise<unknown> {
  switch (question.type) {
    case 'request':
      return service.request(question.request, facts)
    case 'call':
      if (service.call === undefined) throw new EnclaveError('the thread carries out no calls')
      return service.call(question.call, facts)
    case 'secrets':
      try {
        if (service.secrets !== undefined) return await readSecrets(service, question, facts)
      } catch (thrown) {
        throw withSent(asError(thrown), false)
      }
      throw new EnclaveError('the enclave of this runtime gives its callers no secrets', {
        code: 'CAPABILITY',
        mayHaveBeenSent: false,
      })
  }
}

/** Reads secrets within their time limit. */
async function readSecrets(
  service: Service,
  { names, timeout }: Extract<Question, { type: 'secrets' }>,
  { startedAt, signal }: Facts,
): Promise<unknown> {
  const left = Math.max(0, startedAt + timeout - Date.now())
  const late = (): Error =>
    new VaultError(`the vault did not release its secrets within ${timeout} ms`)
  const read = service.secrets as Required<Service>['secrets']
  return withTimeout(left, late, limited => abortable(read(names, limited), limited), signal)
}

/**
 * Returns the memory of an answer's body if it contains nothing else. This memory is then
 * transferred to the calling thread, so that no copy stays behind.
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
 * Makes a function that lets one waiter per tick of the event loop continue, in order. So timers
 * and answers can run between expensive tasks. A waiter that is cancelled by then uses no tick.
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
