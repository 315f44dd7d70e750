import type { Context } from './context.js'

/** How something stands. What depends on something that has failed is not checked. */
export type Status = 'ok' | 'warning' | 'failed' | 'not checked'

/** What a check has found out about one thing. */
export interface Finding {
  readonly status: Status
  /** What is so, in one line. */
  readonly text: string
  /** What to do about it. */
  readonly advice?: string
  /** The figures of the text, for programs. */
  readonly facts?: Facts
  /** What the command ends with where this is the first failure. @default that of the check */
  readonly exitCode?: number
}

/** Figures by their name, in milliseconds where the name says so. */
export type Facts = Readonly<Record<string, string | number | boolean | undefined>>

/** Checks one thing: `checks.ts` lists all. */
export interface Check {
  /** One word, which the report shows. */
  readonly name: string
  /** Checks further up the list. Where one of them has failed, this one would only repeat it. */
  readonly needs: readonly string[]
  /** What the command ends with where this fails first. */
  readonly exitCode: number
  /** Milliseconds that it may take. @default 15000 */
  readonly deadline?: (context: Context) => number
  /** Returns a finding per thing. What it throws is a failure, too; the signal aborts at the deadline. */
  run(context: Context, signal: AbortSignal): Promise<readonly Finding[]>
}

/** The exit codes of failures, as docs/command-line.md has them. */
export const exitCodes: { readonly machine: 1; readonly access: 3; readonly service: 4 } = {
  machine: 1,
  access: 3,
  service: 4,
}

/** All is well. */
export function ok(text: string, facts?: Facts): Finding {
  return { status: 'ok', text, ...(facts && { facts }) }
}

/** It works, and someone should look at it. */
export function warning(text: string, advice: string, facts?: Facts): Finding {
  return { status: 'warning', text, advice, ...(facts && { facts }) }
}

/** It does not work. */
export function failed(text: string, advice: string, facts?: Facts): Finding {
  return { status: 'failed', text, advice, ...(facts && { facts }) }
}

/** It could not be found out, because of something else. */
export function notChecked(text: string): Finding {
  return { status: 'not checked', text }
}
