/** A logger with any of these functions, which get a message and an object of facts: console, pino, winston, … */
export interface Logger {
  /** Gets the lines of level `DEBUG`. */
  debug?(message: string, ...args: unknown[]): void
  /** Gets the lines of level `INFO`. */
  info?(message: string, ...args: unknown[]): void
  /** Gets the lines of level `WARN`. */
  warn?(message: string, ...args: unknown[]): void
  /** Gets the lines of level `ERROR`. */
  error?(message: string, ...args: unknown[]): void
}

/** The levels of a logger, the lowest first. */
export const levels = ['debug', 'info', 'warn', 'error'] as const
/** The name of a level of a logger. */
export type LevelName = (typeof levels)[number]
