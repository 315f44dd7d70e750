// Runs a parser on inputs that it did not expect.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isThenable } from '../../../core/async.js'
import { isStreamsError } from '../../../core/errors.js'
import { createDice, type Dice } from '../../fuzz/dice.js'

/** Something that reads what a stranger has written. */
export interface Target<Input> {
  readonly name: string
  make(dice: Dice): Input
  /** What was read; undefined where the input was refused without an error. Throws typed errors only. */
  read(input: Input): unknown
  /** Other errors that are typed, and turned into errors of the library by who calls the parser. */
  isTyped?(thrown: unknown): boolean
  /** Throws where what was read, or the error that was thrown, can't be. */
  check?(result: unknown, input: Input, thrown: unknown): void
  /** The input as it is shown where something is wrong. */
  show(input: Input): string
  sizeOf(input: Input): number
  /** Which part of the inputs is run: what does curve arithmetic is a thousand times as slow. @default 1 */
  readonly share?: number
  /** Makes something of every input. */
  readonly isTotal?: true
}

/** The input that took longest. */
interface Slowest {
  readonly ms: number
  readonly size: number
  readonly number: number
}

/** What a run came to. */
export interface Figures {
  readonly name: string
  readonly inputs: number
  readonly parsed: number
  /** Refused with a typed error, or without one. */
  readonly refused: number
  /** How much the heap has grown, in bytes, after a collection before and after; undefined for a few inputs. */
  readonly heapGrowth: number | undefined
  /** Undefined for a few inputs. */
  readonly slowest: Slowest | undefined
  readonly seconds: number
}

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

/** Bytes on the heap that are reachable. */
export function reachable(): number {
  collect()
  return process.memoryUsage().heapUsed
}

/** So few inputs say nothing of memory and time. */
const FEW = 500
/** What is compiled and remembered once is no growth. */
const WARM_UP = 500
/** Inputs between two turns of the event loop. */
const BATCH = 500
/** Of so many slow inputs the slowest is sought. */
const CANDIDATES = 4

/**
 * Runs `inputs` inputs through a target. Throws where one was answered with anything else than a result that can be, or a
 * typed error: the message has what it takes to make that input again.
 */
export async function fuzz<Input>(
  target: Target<Input>,
  inputs: number,
  seed: number,
): Promise<Figures> {
  let parsed = 0
  let refused = 0

  function blame(number: number, input: Input, thrown: unknown): Error {
    const what = thrown instanceof Error ? `${thrown.name}: ${thrown.message}` : String(thrown)
    return new Error(
      `${target.name}: input ${number} of seed ${seed}: ${what}\n  ${target.show(input).slice(0, 2000)}`,
      { cause: thrown },
    )
  }

  async function runOne(number: number): Promise<number> {
    const input = target.make(createDice(seed, number))
    const started = performance.now()
    let result: unknown
    let thrown: unknown
    try {
      const read = target.read(input)
      result = isThenable(read) ? await read : read
    } catch (error) {
      thrown = error
    }
    const took = performance.now() - started
    if (thrown !== undefined && !isStreamsError(thrown) && target.isTyped?.(thrown) !== true)
      throw blame(number, input, thrown)
    if (result === undefined) refused++
    else parsed++
    try {
      target.check?.(result, input, thrown)
    } catch (error) {
      throw blame(number, input, error)
    }
    return took
  }

  const isMeasured = inputs >= FEW
  if (isMeasured)
    for (let number = 0; number < Math.min(WARM_UP, inputs / 4); number++) await runOne(number)
  parsed = 0
  refused = 0
  const before = isMeasured ? reachable() : 0
  const started = performance.now()
  const slow: { ms: number; number: number }[] = []
  for (let number = 0; number < inputs; number++) {
    const ms = await runOne(number)
    if (slow.length < CANDIDATES || ms > (slow.at(-1)?.ms ?? 0)) {
      slow.push({ ms, number })
      slow.sort((one, other) => other.ms - one.ms)
      slow.length = Math.min(slow.length, CANDIDATES)
    }
    if (number % BATCH === 0) await new Promise(resolve => setImmediate(resolve))
  }
  const seconds = (performance.now() - started) / 1000
  const heapGrowth = isMeasured ? reachable() - before : undefined
  return {
    name: target.name,
    inputs,
    parsed,
    refused,
    heapGrowth,
    slowest: isMeasured ? await slowest(slow.map(({ number }) => number)) : undefined,
    seconds,
  }

  /** What was slow may have waited for the collector or another process: so each again, and the best of three. */
  async function slowest(numbers: readonly number[]): Promise<Slowest> {
    let worst = { ms: 0, size: 0, number: 0 }
    for (const number of numbers) {
      let ms = Number.POSITIVE_INFINITY
      for (let round = 0; round < 3; round++) ms = Math.min(ms, await runOne(number))
      const size = target.sizeOf(target.make(createDice(seed, number)))
      if (ms > worst.ms) worst = { ms, size, number }
    }
    return worst
  }
}
