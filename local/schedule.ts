/** Something to do again and again. */
export interface Task {
  /** Milliseconds between two runs. */
  readonly intervalMs: number
  readonly run: () => void
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

  function begin({ intervalMs, run }: Task, phaseMs: number): void {
    const first = setTimeout(function firstRun() {
      timers.delete(first)
      timers.add(setInterval(run, intervalMs))
      run()
    }, phaseMs)
    timers.add(first)
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
