/** Something to do again and again. */
export interface Task {
  /** Milliseconds between two runs. */
  readonly intervalMs: number
  /** Returns after how many ms it is to run once more; it does if that is before the next run. */
  readonly run: () => number
}

/** Tasks that run until they are stopped, and again once they are started. */
export interface Schedule {
  readonly start: () => void
  readonly stop: () => void
}

/** A schedule that isn't started. Tasks of one interval take turns within it, so that no moment has all the work. */
export function createSchedule(tasks: readonly Task[]): Schedule {
  const byInterval = new Map<number, Task[]>()
  for (const task of tasks) {
    const others = byInterval.get(task.intervalMs)
    if (others === undefined) byInterval.set(task.intervalMs, [task])
    else others.push(task)
  }
  const timers = new Set<NodeJS.Timeout>()
  let isRunning = false

  function runOnce(task: Task): void {
    const waitMs = task.run()
    if (waitMs > 0 && waitMs < task.intervalMs) runAfter(waitMs, () => runOnce(task))
  }

  function runAfter(ms: number, run: () => void): void {
    const timer = setTimeout(function runThen() {
      timers.delete(timer)
      run()
    }, ms)
    timers.add(timer)
  }

  function begin(task: Task, phaseMs: number): void {
    runAfter(phaseMs, function firstRun() {
      timers.add(setInterval(runOnce, task.intervalMs, task))
      runOnce(task)
    })
  }

  return {
    start() {
      if (isRunning) return
      isRunning = true
      for (const [intervalMs, group] of byInterval) {
        for (const [i, task] of group.entries()) {
          begin(task, (intervalMs * (i + 1)) / group.length)
        }
      }
    },
    stop() {
      isRunning = false
      for (const timer of timers) clearTimeout(timer)
      timers.clear()
    },
  }
}
