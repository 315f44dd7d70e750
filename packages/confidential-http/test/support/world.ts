import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { whenEnded } from '@sluice/test-support/processes.js'

/** A request as the external server got it. */
export interface Hit {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Ready {
  readonly vault: string
  readonly owner: string
  readonly otherOwner: string
  readonly url: string
  readonly ca: string
  readonly enclaveURL: string
  readonly enclavePublicKey: string
  readonly callerSecretKey: string
  readonly otherCallerSecretKey: string
}

/** The surroundings of a caller, in a process of their own: an external server, a vault and a listening enclave. */
export interface World extends Ready {
  readonly process: ChildProcess
  readonly hits: Hit[]
  /** Lets the requests for /hold be answered. */
  release(): void
  /** The number of connections to the external server. */
  connections(): Promise<number>
  /** Starts the enclave anew, where it was. */
  restart(): Promise<string>
  /** Starts another enclave with the same key, and resolves with its URL. */
  startAnother(): Promise<string>
  /** The log lines of the listening enclave. */
  lines(): Promise<readonly string[]>
  close(): Promise<void>
}

/** The stack of faulty-stack.cjs. */
export const faultyStack: string = pathToFileURL(join(__dirname, 'faulty-stack.cjs')).href

/** Starts one whose vault has these secrets; `others` are those of another owner. */
export async function startWorld(
  secrets: Record<string, string>,
  others: Record<string, string> = {},
): Promise<World> {
  const child = fork(join(__dirname, 'world-process.mjs'), {
    env: { PATH: process.env.PATH, SECRETS: JSON.stringify([secrets, others]) },
    execArgv: [],
  })
  const hits: Hit[] = []
  const answers = new Map<string, (value: unknown) => void>()
  child.on('message', (message: Record<string, unknown>) => {
    if (message.hit !== undefined) hits.push(message.hit as Hit)
    for (const [name, value] of Object.entries(message)) answers.get(name)?.(value)
  })
  const answerTo = <Value>(name: string): Promise<Value> =>
    new Promise(resolve => answers.set(name, resolve as (value: unknown) => void))
  const ask = <Value>(name: string): Promise<Value> => {
    const answer = answerTo<Value>(name)
    child.send(name)
    return answer
  }
  const failed = once(child, 'exit').then(([code]) => {
    throw new Error(`the world ended with exit code ${code}`)
  })
  failed.catch(() => undefined)
  const ready = await Promise.race([answerTo<Ready>('ready'), failed])
  return {
    ...ready,
    process: child,
    hits,
    release: () => void child.send('release'),
    connections: () => ask<number>('connections'),
    restart: () => ask<string>('restart'),
    startAnother: () => ask<string>('startAnother'),
    lines: () => ask<readonly string[]>('lines'),
    async close() {
      child.kill('SIGCONT')
      if (child.connected) child.disconnect()
      await whenEnded(child)
    },
  }
}
