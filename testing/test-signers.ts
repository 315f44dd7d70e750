import { ValidationError } from '../core/errors.js'
import {
  MAX_TIMER,
  number,
  optional,
  readOptions,
  type Schema,
  withDefault,
} from '../core/options.js'
import type { LookUp, Signers } from '../plugins/verify/options.js'
import { checkSigners } from '../plugins/verify/options.js'
import { verifyReport } from '../plugins/verify/verify-report.js'
import { readHead } from '../report/full-report.js'
import { Findings } from './faults.js'
import {
  copyOf,
  describeOutcome,
  describeThrown,
  findDifference,
  outcomeOf,
  watchTimers,
} from './probe.js'
import { sampleReport } from './reports.js'

/** A signed report. */
export interface SignedSample {
  /** In lower case. */
  readonly feedID: string
  /** The signed bytes, `0x` and hexadecimal digits. */
  readonly fullReport: string
}

/** Options of `testSigners`. */
export interface SignersTestOptions {
  /** Reports that the signers have signed. @default a report of the `sampleSigners` */
  readonly samples?: readonly SignedSample[]
  /** Milliseconds that a lookup may take. @default 10000 */
  readonly patience?: number
}

/** What `testSigners` found out about signers that broke no rule. */
export interface SignersTestResult {
  /** Whether the signers are a function, and not a list. */
  readonly isLookup: boolean
  /** Milliseconds that the slowest lookup took; 0 for a list. */
  readonly lookupMs: number
}

function checkSamples(field: string, value: unknown): readonly SignedSample[] {
  if (!Array.isArray(value) || value.length === 0)
    throw new ValidationError(`${field} must be an array of at least one report`)
  for (const [index, each] of value.entries())
    if (typeof each?.feedID !== 'string' || typeof each?.fullReport !== 'string')
      throw new ValidationError(`${field}[${index}] must have feedID and fullReport`)
  return value
}

const defaultSample = (): SignedSample =>
  sampleReport({
    feedID: `0x0003${'a5'.repeat(30)}`,
    observationsTimestamp: 1_700_000_000,
    signed: true,
  })

const schema = {
  samples: optional(checkSamples),
  patience: withDefault(10_000, number({ min: 1, max: MAX_TIMER })),
} satisfies Schema<SignersTestOptions>

/** A config digest that no network has. */
const UNKNOWN = `0x0009${'fe'.repeat(30)}`

/** Changes a digit of the signed blob: the last digit of a price. */
function alter(fullReport: string): string {
  // The blob begins after its offset, in the fifth word, and its length.
  const at = 2 + 2 * Number(`0x${fullReport.slice(2 + 3 * 64, 2 + 4 * 64)}`) + 64 + 7 * 64 - 1
  const digit = fullReport[at] === '0' ? '1' : '0'
  return fullReport.slice(0, at) + digit + fullReport.slice(at + 1)
}

/** A test of one source of signers. */
class SignersTest {
  lookupMs = 0
  readonly #signers: Signers
  readonly #findings: Findings
  readonly #patience: number

  constructor(signers: Signers, findings: Findings, patience: number) {
    this.#signers = signers
    this.#findings = findings
    this.#patience = patience
  }

  /** Checks that a report is verified, and that an altered report is not. */
  async testVerification({ feedID, fullReport }: SignedSample): Promise<void> {
    const verify = (text: string) =>
      outcomeOf(
        () => verifyReport(text, { signers: this.#signers, checkExpiry: false }),
        2 * this.#patience,
      )
    const name = `the report of feed ${feedID.slice(0, 10)}…`
    const right = await verify(fullReport)
    this.#findings.check(
      right.kind === 'resolved',
      'verifies',
      `the verification of ${name} ${describeOutcome(right)}`,
    )
    const wrong = await verify(alter(fullReport))
    this.#findings.check(
      wrong.kind === 'rejected',
      'rejects',
      `the verification of ${name} with another price ${describeOutcome(wrong)}`,
    )
  }

  /** Checks a function that looks signers up. */
  async testLookup(lookUp: LookUp, { feedID, fullReport }: SignedSample): Promise<void> {
    const configDigest = fullReport.slice(0, 66)
    const { observationsTimestamp } = readHead(fullReport, feedID)
    const report = Object.freeze({ feedID, fullReport, observationsTimestamp })
    const answers: unknown[] = []
    const ask = async (digest: string, what: string): Promise<unknown> => {
      const outcome = await outcomeOf(async () => lookUp(digest, report), this.#patience)
      this.lookupMs = Math.max(this.lookupMs, outcome.ms)
      if (outcome.kind === 'resolved') return outcome.value
      const rule = outcome.kind === 'pending' ? 'time' : 'answers'
      this.#findings.add(rule, `${what} ${describeOutcome(outcome)}`)
      return undefined
    }
    for (const answer of await Promise.all([
      ask(configDigest, 'the lookup of a known configuration'),
      ask(configDigest, 'the same lookup at the same time'),
    ]))
      answers.push(copyOf(answer), answer)
    const [first, given, second] = answers
    this.#compare(first, second, 'two lookups at the same time gave different signers')
    this.#checkSets(given)
    const unknown = await ask(UNKNOWN, 'the lookup of an unknown configuration')
    const isNone = unknown === undefined || unknown === null || (unknown as unknown[]).length === 0
    this.#findings.check(isNone, 'unknown', 'it gave signers for a configuration that nobody has')
    const again = await ask(configDigest, 'a second lookup')
    this.#compare(first, copyOf(again), 'a second lookup gave other signers')
    // The library keeps what it was given.
    this.#compare(first, copyOf(given), 'the signers of the first lookup have changed')
  }

  #compare(one: unknown, other: unknown, message: string): void {
    const difference = findDifference(one, other, '')
    this.#findings.check(difference === undefined, 'stable', `${message}: ${difference}`)
  }

  /** The sets must be as a list of signers must be. */
  #checkSets(sets: unknown): void {
    try {
      checkSigners(sets as Signers)
    } catch (thrown) {
      this.#findings.add('shape', `the found signers break a rule: ${describeThrown(thrown)}`)
    }
  }
}

/**
 * Checks the rules of signers: a set, several sets, or a function that looks sets up. `samples` are
 * reports that they have signed. Rejects with a ConformanceError that names each broken rule. Works
 * under every test runner.
 *
 * @example
 * ```ts
 * test('my signers keep the rules', async () => {
 *   await testSigners(lookUpSigners, { samples: [{ feedID, fullReport }] })
 * })
 * ```
 */
export async function testSigners(
  signers: Signers,
  options?: SignersTestOptions,
): Promise<SignersTestResult> {
  const { samples = [defaultSample()], patience } = readOptions('testSigners', options, schema)
  const isLookup = typeof checkSigners(signers) === 'function'
  const findings = new Findings('signers')
  const test = new SignersTest(signers, findings, patience)
  const timers = watchTimers()
  try {
    for (const [index, sample] of samples.entries()) {
      findings.where = `samples[${index}]`
      if (typeof signers === 'function') await test.testLookup(signers as LookUp, sample)
      await test.testVerification(sample)
    }
    findings.where = 'the end'
    for (const origin of timers.left()) findings.add('timers', `a timer still runs: ${origin}`)
  } finally {
    timers.end()
  }
  findings.finish()
  return { isLookup, lookupMs: test.lookupMs }
}
