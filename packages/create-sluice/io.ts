import type { Readable, Writable } from 'node:stream'

/** The input, outputs and environment of the program. Tests provide their own object. */
export interface IO {
  readonly stdin: Readable & { readonly isTTY?: boolean }
  readonly stdout: Writable & { readonly isTTY?: boolean }
  readonly stderr: Writable
  readonly env: Readonly<Record<string, string | undefined>>
  /** The current folder. */
  readonly cwd: string
}

/** An argument or an answer that is wrong. The message names the field and the rule. */
export class UsageError extends Error {}
