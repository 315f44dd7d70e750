import host from 'node:process'
import { workerData } from 'node:worker_threads'
import { asError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { EnclaveError } from '../../plugins/confidential-http/errors.js'
import { durationMs } from '../request/duration.js'
import type { ConfidentialHTTPRequestMessage } from '../request/normalize-request.js'
import { withSent } from '../sent.js'
import type { HTTPResponse } from '../types.js'
import { type Failure, kindOfError, toFailure } from './failure.js'
import type { ThreadData } from './thread-data.js'
import type { FromThread, ReleasedSecret, SecretKey, ToThread } from './thread-messages.js'
import { createTurns } from './turns.js'

/**
 * How long the event loop goes on before the thread exits, in milliseconds. It runs the finalizers of what the platform's
 * fetch has registered: the first releases of Node 20 hang, using a whole core, if a thread exits with one pending.
 */
const LAST_TURNS = 10

/** Answers one request of the calling thread. */
export type Answer = (
  request: ConfidentialHTTPRequestMessage,
  facts: { readonly startedAt: number; readonly signal: AbortSignal },
) => Promise<HTTPResponse>

/** What a thread does for the calling one. */
export interface Service {
  readonly answer: Answer
  /** The values of secrets, where the calling thread may have them. */
  readSecrets?(names: readonly SecretKey[]): Promise<readonly ReleasedSecret[]>
}

/** Runs in a thread of its own: opens what answers, then answers each request, and wakes who waits for it. */
export function serveThread<Settings>(
  open: (settings: Settings, log: Log) => Promise<Service>,
): void {
  const { settings, port, messages, levels } = workerData as ThreadData<Settings>
  const counter = new Int32Array(messages)
  const running = new Map<
    number,
    { readonly controller: AbortController; readonly ended: Promise<void> }
  >()
  const takeTurn = createTurns()

  function tell(message: FromThread): void {
    port.postMessage(message)
    Atomics.add(counter, 0, 1)
    Atomics.notify(counter, 0)
  }

  // Left to the platform, an error nobody catches would be handed to the calling thread, or printed, with all it carries.
  function fail(thrown: unknown): void {
    tell({ type: 'end', why: `nobody caught an error, ${kindOfError(thrown)}` })
    host.exit(70)
  }
  host.on('uncaughtException', fail)
  host.on('unhandledRejection', fail)
  host.on('exit', code => tell({ type: 'end', why: `exit code ${code}` }))

  const log: Log = Object.fromEntries(
    levels.map(level => [
      level,
      (message: string, facts?: Readonly<Record<string, unknown>>) =>
        tell({ type: 'log', level, message, facts }),
    ]),
  )
  const opened = open(settings, log)
  const tellOpened = (failure?: Failure): void => tell({ type: 'opened', failure })
  opened.then(
    () => tellOpened(),
    thrown => tellOpened(toFailure(withSent(asError(thrown), false))),
  )

  function begin(message: Asked): void {
    const { id } = message
    const controller = new AbortController()
    running.set(id, {
      controller,
      ended: answer(message, controller.signal).finally(() => running.delete(id)),
    })
  }

  async function answer({ id, startedAt, ...question }: Asked, signal: AbortSignal): Promise<void> {
    try {
      const service = await opened
      const isLate = (): boolean =>
        question.type === 'request' && isTimeUp(question.request, startedAt)
      await takeTurn(() => signal.aborted || isLate())
      signal.throwIfAborted()
      if (isLate())
        throw new EnclaveError(
          'the time for the request was up before its turn came: nothing was sent',
          { code: 'EXPIRED', mayHaveBeenSent: false },
        )
      const response =
        question.type === 'request'
          ? await service.answer(question.request, { startedAt, signal })
          : await readSecrets(service, question.names)
      tell({ type: 'response', id, response })
    } catch (thrown) {
      tell({ type: 'failure', id, failure: toFailure(thrown) })
    }
  }

  /** Exits once no file is being opened, by whom ever: it would stay open for as long as the process lives. */
  async function leave(): Promise<void> {
    for (const { controller } of running.values()) controller.abort()
    await Promise.allSettled([opened, ...[...running.values()].map(({ ended }) => ended)])
    setInterval(() => {
      if (!host.getActiveResourcesInfo().some(name => name.startsWith('FSReq'))) host.exit()
    }, LAST_TURNS)
  }

  port.on('close', () => void leave())
  port.on('message', (message: ToThread) => {
    if (message.type !== 'cancel') begin(message)
    else running.get(message.id)?.controller.abort()
  })
}

type Asked = Exclude<ToThread, { type: 'cancel' }>

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

function isTimeUp({ request }: ConfidentialHTTPRequestMessage, startedAt: number): boolean {
  return request.timeout !== undefined && Date.now() > startedAt + durationMs(request.timeout)
}
