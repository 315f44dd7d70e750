// Questions to a process of its own, and its answers.
import { fork, spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
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

/** Sends questions to a child by `send`; its answers are given to `take`. */
function createQuestions(title, child, send) {
  const waiting = new Map()
  let count = 0
  let ended
  function end(reason) {
    ended ??= new Error(`${title} ${reason}`)
    for (const { reject } of waiting.values()) reject(ended)
    waiting.clear()
  }
  child.on('error', error => end(error.message))
  child.on('exit', (code, signal) => end(`exited with ${code ?? signal}`))
  return {
    take({ id, result, error }) {
      const { resolve, reject } = waiting.get(id)
      waiting.delete(id)
      if (error === undefined) resolve(result)
      else reject(new Error(`${title}: ${error}`))
    },
    asker: {
      ask: (name, argument) =>
        new Promise((resolve, reject) => {
          if (ended !== undefined) return reject(ended)
          waiting.set(++count, { resolve, reject })
          send({ id: count, name, argument })
        }),
      stop: () => child.kill(),
    },
  }
}

/** Starts a script of this folder. */
export function startProcess(file, args = [], execArgv = []) {
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, { execArgv })
  const title = [file, ...args].join(' ')
  const { asker, take } = createQuestions(title, child, question => child.send(question))
  child.on('message', take)
  return asker
}

/** Starts a program that is not Node: questions and answers are lines of JSON on its standard input and output. */
export function startProgram(title, path) {
  const child = spawn(path, { stdio: ['pipe', 'pipe', 'inherit'] })
  const { asker, take } = createQuestions(title, child, question =>
    child.stdin.write(`${JSON.stringify(question)}\n`),
  )
  // What can't be written any more is answered by the end of the program.
  child.stdin.on('error', () => undefined)
  createInterface(child.stdout).on('line', line => take(JSON.parse(line)))
  return asker
}
