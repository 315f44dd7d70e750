import type { Call } from '../platform/quickjs-program.js'

/** A running program. */
export interface World {
  /** The value of an expression. */
  evaluate(code: string): unknown
  /** Runs a call of the program, and the jobs that it leaves. There is nothing else to wait for. */
  run(call: Call): object
  end(): void
}

export function bundleProgram(platform?: 'browser' | 'neutral'): Promise<string>
export function writeCall(call: Call): string
export function startQuickJS(code: string, globals?: string): Promise<World>
