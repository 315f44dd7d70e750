import type { IO } from '../io.js'

/** What a command that draws on a terminal does with its keys. */
interface KeyHandlers {
  /** A key was pressed: a character, or the sequence of a special key. */
  readonly press: (key: string) => void
  /** The process is about to be suspended: then the terminal shows other things. */
  readonly suspend: () => void
  /** The process runs again. */
  readonly resume: () => void
}

type Terminal = IO['stdin'] & { setRawMode(isRaw: boolean): unknown }

/** A special key, or a single character. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: keys are control sequences.
const KEYS = /\x1b\[[\d;]*[A-Za-z~]|\x1bO[A-Z]|./gs
/** The keys that a terminal turns into signals, unless a program reads each key. */
const signals: Readonly<Record<string, 'SIGINT' | 'SIGQUIT' | 'SIGTSTP'>> = {
  '\x03': 'SIGINT',
  '\x1a': 'SIGTSTP',
  '\x1c': 'SIGQUIT',
}

/**
 * The keys of a terminal, each as it is pressed. Meanwhile the terminal neither shows keys nor
 * turns them into signals, so this does; it restores the terminal while the process is suspended.
 */
export class Keyboard {
  readonly #stdin: Terminal
  readonly #handlers: KeyHandlers

  private constructor(stdin: Terminal, handlers: KeyHandlers) {
    this.#stdin = stdin
    this.#handlers = handlers
    this.#stdin.setRawMode(true)
    this.#stdin.on('data', this.#read)
    if (process.platform === 'win32') return
    process.on('SIGTSTP', this.#suspend)
    process.on('SIGCONT', this.#resume)
  }

  /** Undefined if standard input is not a terminal. */
  static open(stdin: IO['stdin'] | undefined, handlers: KeyHandlers): Keyboard | undefined {
    return stdin?.isTTY && 'setRawMode' in stdin
      ? new Keyboard(stdin as Terminal, handlers)
      : undefined
  }

  /** Gives the terminal back; idempotent. */
  close(): void {
    this.#stdin.setRawMode(false)
    this.#stdin.off('data', this.#read).pause()
    process.off('SIGTSTP', this.#suspend)
    process.off('SIGCONT', this.#resume)
  }

  readonly #read = (chunk: Uint8Array): void => {
    for (const [key] of chunk.toString().matchAll(KEYS)) {
      const signal = signals[key]
      if (signal === undefined) this.#handlers.press(key)
      else this.#raise(signal)
    }
  }

  /** Sends a signal to the processes that the terminal would send it to. */
  #raise(signal: NodeJS.Signals): void {
    // The next Ctrl-C ends the process at once, and the terminal must be as it was.
    if (signal !== 'SIGTSTP') this.close()
    process.kill(process.platform === 'win32' ? process.pid : 0, signal)
  }

  readonly #suspend = (): void => {
    this.#handlers.suspend()
    this.#stdin.setRawMode(false)
    process.kill(process.pid, 'SIGSTOP')
  }

  readonly #resume = (): void => {
    // A shell has changed the terminal, and Node takes a mode that it has set for set.
    this.#stdin.setRawMode(false)
    this.#stdin.setRawMode(true)
    this.#handlers.resume()
  }
}
