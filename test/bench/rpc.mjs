// Questions to a process of its own, and its answers.
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

/** Answers the questions of the process that started this one. */
export function answer(handlers) {
  process.on('message', async ({ id, name, argument }) => {
    try {
      process.send({ id, result: await handlers[name](argument) })
    } catch (error) {
      process.send({ id, error: error?.stack ?? String(error) })
    }
  })
  process.on('disconnect', () => process.exit())
}

/** Starts a program of this folder. */
export function startProcess(file, args = [], execArgv = []) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, { execArgv })
  const waiting = new Map()
  let count = 0
  child.on('message', ({ id, result, error }) => {
    const { resolve, reject } = waiting.get(id)
    waiting.delete(id)
    if (error === undefined) resolve(result)
    else reject(new Error(`${file} ${args.join(' ')}: ${error}`))
  })
  child.on('exit', code => {
    for (const { reject } of waiting.values()) reject(new Error(`${file} exited with ${code}`))
  })
  return {
    ask: (name, argument) =>
      new Promise((resolve, reject) => {
        waiting.set(++count, { resolve, reject })
        child.send({ id: count, name, argument })
      }),
    stop: () => child.kill(),
  }
}
