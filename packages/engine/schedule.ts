/** Work to repeat. */
export interface Task {
  /** Milliseconds between two runs; a task of 0 never runs. */
  readonly intervalMs: number
  /** Returns after how many ms to run again; longer than the interval means the next regular run. */
  readonly run: () => number
}

/** Tasks that can be started and stopped. */
export interface Schedule {
  readonly start: () => void
  readonly stop: () => void
}

/** A stopped schedule. Tasks of equal intervals are spread over it, so that no moment has all the work. */
export function createSchedule(tasks: readonly Task[]): Schedule {
  const timers = new Set<NodeJS.Timeout>()
  let isRunning = false

  function runAfter(ms: number, run: () => void): void {
    const timer = setTimeout(function runThen() {
      timers.delete(timer)
      run()
    }, ms)
    timers.add(timer)
  }

  function runOnce(task: Task): void {
    const waitMs = task.run()
    if (waitMs > 0 && waitMs < task.intervalMs) runAfter(waitMs, () => runOnce(task))
  }

  function startTask(task: Task): void {
    timers.add(setInterval(runOnce, task.intervalMs, task))
    runOnce(task)
  }

  return {
    start() {
      if (isRunning) return
      isRunning = true
      for (const intervalMs of new Set(tasks.map(task => task.intervalMs))) {
        const group = tasks.filter(task => task.intervalMs === intervalMs && intervalMs > 0)
        for (const [i, task] of group.entries())
          runAfter((intervalMs * (i + 1)) / group.length, () => startTask(task))
      }
    },
    stop() {
      isRunning = false
      for (const timer of timers) clearTimeout(timer)
      timers.clear()
    },
  }
}
