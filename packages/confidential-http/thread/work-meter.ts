import { type AsyncHook, AsyncResource, createHook, executionAsyncResource } from 'node:async_hooks'

/** The property of an asynchronous resource that names whose work its callbacks do. */
const WHOSE = Symbol('whose')
/** Milliseconds of work after which it is told. */
const TELL_EVERY = 2

type Owned = object & { [WHOSE]?: string | undefined }

/**
 * Measures how long an event loop works for each caller. Each callback, and each step of an `async`
 * function, counts for the caller in whose work it was created. So all that a request causes counts
 * for its caller, also what plugins do, and what it costs to read an answer in tiny pieces.
 */
export class WorkMeter {
  readonly #tell: (caller: string, ms: number) => void
  readonly #hook: AsyncHook
  readonly #untold = new Map<string, number>()
  /** Whose callback runs, and whose callbacks wait meanwhile, as callbacks may be nested. */
  readonly #running: (string | undefined)[] = []
  #since = 0

  /** Calls `tell` when a caller has used some milliseconds more. */
  constructor(tell: (caller: string, ms: number) => void) {
    this.#tell = tell
    this.#hook = createHook({
      init(_id, _type, _trigger, resource: Owned) {
        resource[WHOSE] = (executionAsyncResource() as Owned)[WHOSE]
      },
      before: () => {
        this.#charge()
        this.#running.push((executionAsyncResource() as Owned)[WHOSE])
      },
      after: () => {
        this.#charge()
        this.#running.pop()
      },
    }).enable()
  }

  /** Runs work that counts for a caller, with all that it causes. */
  run<Result>(caller: string, work: () => Result): Result {
    const resource: AsyncResource & Owned = new AsyncResource('caller')
    resource[WHOSE] = caller
    return resource.runInAsyncScope(work)
  }

  /** Stops measuring. */
  end(): void {
    this.#hook.disable()
  }

  /** Charges the time since the last call to whose callback runs. */
  #charge(): void {
    const now = performance.now()
    const caller = this.#running.at(-1)
    if (caller !== undefined) {
      const ms = (this.#untold.get(caller) ?? 0) + now - this.#since
      if (ms < TELL_EVERY) this.#untold.set(caller, ms)
      else {
        this.#untold.delete(caller)
        this.#tell(caller, ms)
      }
    }
    this.#since = now
  }
}
