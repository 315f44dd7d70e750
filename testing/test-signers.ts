import { isStreamsError, ValidationError } from '../core/errors.js'
import { readOptions, type Schema, withDefault } from '../core/options.js'
import {
  checkSets,
  checkSigners,
  type LookUp,
  type Signers,
  type UnverifiedReport,
} from '../plugins/verify/options.js'
import { verifyReport } from '../plugins/verify/verify-report.js'
import { BLOB_DIGITS, DIGITS, readContext, readHead } from '../report/full-report.js'
import { Findings } from './faults.js'
import {
  copyOf,
  describeOutcome,
  describeThrown,
  findDifference,
  type Outcome,
  outcomeOf,
  TimerWatch,
} from './probe.js'
import { sampleReport } from './reports.js'
import { checkSamples } from './samples.js'

/** A report that is signed by the signers. */
export interface SignedSample {
  /** The feed of the report: `0x` and 64 hexadecimal digits. */
  readonly feedID: string
  /** The signed bytes of the report, `0x` and hexadecimal digits. */
  readonly fullReport: string
}

/** Options of `testSigners`. */
export interface SignersTestOptions {
  /**
   * Reports that must be verified, at least one.
   * @default a report of now that is signed by the `sampleSigners`
   */
  readonly samples?: readonly SignedSample[]
}

/** What `testSigners` found out about signers that broke no rule. */
export interface SignersTestResult {
  /** How often the function was called; 0 for sets. */
  readonly calls: number
}

/** A sample that has been read. */
interface Sample extends UnverifiedReport {
  /** Names the sample in faults. */
  readonly name: string
  readonly configDigest: string
  /** The number of words of the blob. */
  readonly words: number
}

const schema = {
  samples: withDefault<readonly Sample[] | undefined>(undefined, (field, value) =>
    checkSamples(field, value ?? [signedNow()], readSample),
  ),
} satisfies Schema<SignersTestOptions>

function signedNow(): SignedSample {
  const observationsTimestamp = Math.floor(Date.now() / 1000)
  return sampleReport({ feedID: `0x0003${'5e'.repeat(30)}`, observationsTimestamp, signed: true })
}

function readSample(name: string, feedID: string, fullReport: string): Sample {
  const { observationsTimestamp, blobLength } = readHead(fullReport, feedID)
  const { configDigest, signatures } = readContext(fullReport, feedID)
  if (signatures.length === 0)
    throw new ValidationError(`${name}.fullReport must be signed: it has no signatures`)
  return { name, feedID, fullReport, observationsTimestamp, configDigest, words: blobLength / 32 }
}

/** Milliseconds in which the timers of the last calls must have ended. */
const TIMER_LIMIT = 250
/** How many calls are made at once. */
const AT_ONCE = 4
/** The digests of configurations that no network has. */
const invented = ['e1', 'e2'].map(digits => `0x0009${digits.repeat(30)}`)

/** An answer of the function, and what it was when the function gave it. */
interface Answer {
  readonly value: unknown
  readonly copy: unknown
  readonly where: string
}

/** A test of signers. */
class SignersTest {
  calls = 0
  readonly #signers: Signers
  readonly #findings: Findings
  readonly #answers: Answer[] = []

  constructor(signers: Signers, findings: Findings) {
    this.#signers = signers
    this.#findings = findings
  }

  async run(samples: readonly Sample[]): Promise<void> {
    const findings = this.#findings
    findings.where = 'the signers'
    try {
      checkSigners(this.#signers)
    } catch (thrown) {
      if (!isStreamsError(thrown, 'VALIDATION')) throw thrown
      findings.add('shape', thrown.message)
      return
    }
    const before = copyOf(this.#signers)
    const isFunction = typeof this.#signers === 'function'
    for (const sample of samples) {
      findings.where = sample.name
      if (isFunction && !(await this.#askForSample(this.#signers as LookUp, sample))) return
      await this.#verify(sample)
    }
    if (isFunction)
      for (const digest of invented)
        await this.#askForInvented(this.#signers as LookUp, samples[0] as Sample, digest)
    findings.where = 'the signers'
    const difference = findDifference(before, copyOf(this.#signers), 'signers')
    findings.check(difference === undefined, 'unchanged', String(difference))
    for (const { value, copy, where } of this.#answers) {
      findings.where = where
      const change = findDifference(copy, copyOf(value), 'an answer')
      findings.check(change === undefined, 'unchanged', `later, ${change}`)
    }
  }

  /** Calls the function as the library does. */
  async #ask(
    signers: LookUp,
    configDigest: string,
    report: UnverifiedReport,
  ): Promise<Outcome<unknown>> {
    this.calls++
    const given = { ...report }
    const outcome = await outcomeOf(() => signers(configDigest, given))
    const findings = this.#findings
    const difference = findDifference(copyOf(report), copyOf(given), 'the report')
    findings.check(difference === undefined, 'argument', `the function changed it: ${difference}`)
    const text = `the function ${describeOutcome(outcome)}`
    const isPromise = outcome.kind !== 'thrown' && outcome.kind !== 'returned'
    findings.check(isPromise, 'promise', text)
    findings.check(outcome.kind !== 'pending', 'time', text)
    if (outcome.kind === 'resolved') {
      const { value } = outcome
      this.#answers.push({ value, copy: copyOf(value), where: findings.where })
    }
    return outcome
  }

  /** The sets of an answer, in a form to compare. Undefined if the answer is no list of sets. */
  #setsOf(outcome: Outcome<unknown>): readonly SetFacts[] | undefined {
    if (outcome.kind !== 'resolved') return undefined
    const { value } = outcome
    if (value === undefined || value === null) return []
    if (Array.isArray(value) && value.length === 0) return []
    try {
      return checkSets('the answer', value).map(({ addresses, f, configDigest, activeFrom }) => ({
        addresses: [...addresses].sort(),
        f,
        configDigest,
        activeFrom,
      }))
    } catch (thrown) {
      this.#findings.add('answer', describeThrown(thrown))
      return undefined
    }
  }

  /** Asks for the configuration of a sample, again and again. False if there is no answer. */
  async #askForSample(signers: LookUp, sample: Sample): Promise<boolean> {
    const { feedID, fullReport, observationsTimestamp, configDigest } = sample
    const findings = this.#findings
    const report = { feedID, fullReport, observationsTimestamp }
    const first = await this.#ask(signers, configDigest, report)
    if (first.kind === 'rejected') {
      findings.add('answers', `the function ${describeOutcome(first)}`)
      return false
    }
    const sets = this.#setsOf(first)
    if (sets === undefined) return false
    const second = await this.#ask(signers, configDigest, { ...report, origin: 'wss://a#001' })
    if (!this.#compare(sets, second, 'stable', 'the second call')) return true
    const others = await Promise.all(
      Array.from({ length: AT_ONCE }, (_, index) =>
        this.#ask(signers, configDigest, { ...report, origin: `wss://a#00${index}` }),
      ),
    )
    for (const other of others)
      this.#compare(sets, other, 'concurrent', `one of ${AT_ONCE} calls at once`)
    return true
  }

  /** Compares an answer with an earlier one. Returns whether they are equal. */
  #compare(
    expected: readonly SetFacts[],
    outcome: Outcome<unknown>,
    rule: string,
    call: string,
  ): boolean {
    const sets = this.#setsOf(outcome)
    const difference =
      sets === undefined
        ? describeOutcome(outcome)
        : findDifference(copyOf(expected), copyOf(sets), 'gave another answer: it')
    this.#findings.check(difference === undefined, rule, `${call} ${difference}`)
    return difference === undefined
  }

  /** Asks for a configuration that no network has. */
  async #askForInvented(signers: LookUp, sample: Sample, digest: string): Promise<void> {
    this.#findings.where = `the invented configuration ${digest.slice(0, 10)}…`
    const { feedID, observationsTimestamp } = sample
    const fullReport = digest + sample.fullReport.slice(digest.length)
    const report = { feedID, fullReport, observationsTimestamp }
    const outcome = await this.#ask(signers, digest, report)
    const text = `the function ${describeOutcome(outcome)}`
    this.#findings.check(outcome.kind !== 'rejected', 'unknown', text)
    const isClaimed = this.#setsOf(outcome)?.some(({ configDigest }) => configDigest === digest)
    this.#findings.check(!isClaimed, 'unknown', 'the answer has a set of this configuration')
  }

  /** Verifies a report, and expects that its altered forms are rejected. */
  async #verify(sample: Sample): Promise<void> {
    const { feedID, fullReport } = sample
    const findings = this.#findings
    const verified = await this.#tryVerify(fullReport, feedID)
    findings.check(verified.kind === 'resolved', 'verifies', describeOutcome(verified))
    if (verified.kind !== 'resolved') return
    for (const [what, altered] of alteredForms(sample)) {
      const outcome = await this.#tryVerify(altered, feedID)
      const text = `with ${what}, the report was verified all the same`
      findings.check(outcome.kind !== 'resolved', 'altered', text)
      if (outcome.kind === 'rejected' && !isStreamsError(outcome.error, 'VERIFICATION'))
        throw outcome.error
    }
  }

  #tryVerify(fullReport: string, feedID: string): Promise<Outcome<unknown>> {
    const signers = this.#signers
    // The answers of a function are cached as long as the function is, so this is a new one.
    const own: Signers =
      typeof signers === 'function' ? (digest, report) => signers(digest, report) : signers
    // `verifyReport` ends a wait for signers by itself.
    return outcomeOf(() => verifyReport(fullReport, { signers: own, feedID }), 60_000)
  }
}

/** What is compared of a set. `activeUntil` may be counted from the time of the call. */
interface SetFacts {
  readonly addresses: readonly string[]
  readonly f: number
  readonly configDigest: string | undefined
  readonly activeFrom: number
}

/** Forms of a report in which one byte that was signed, or of a signature, is another. */
function alteredForms({ fullReport, words }: Sample): readonly (readonly [string, string])[] {
  const blob = BLOB_DIGITS / DIGITS
  const places: readonly (readonly [string, number])[] = [
    ['another round', 1],
    ['another extra hash', 2],
    ['another validFromTimestamp', blob + 1],
    ['another nativeFee', blob + 3],
    ['another last value', blob + words - 1],
    ['another signature', blob + words + 1],
  ]
  return places.map(([what, word]) => {
    const at = 2 + DIGITS * (word + 1) - 1
    const digit = Number.parseInt(fullReport[at] as string, 16) ^ 1
    return [what, fullReport.slice(0, at) + digit.toString(16) + fullReport.slice(at + 1)]
  })
}

/**
 * Checks the rules of signers: one set, several sets, or a function that finds them. The samples
 * are reports that they signed.
 *
 * Rejects with a ConformanceError that names each broken rule. Works under every test runner.
 *
 * @example
 * ```ts
 * test('my signers keep the rules', () => testSigners(mySigners, { samples: [report] }))
 * ```
 */
export async function testSigners(
  signers: Signers,
  options?: SignersTestOptions,
): Promise<SignersTestResult> {
  const { samples = [] } = readOptions('testSigners', options, schema)
  const findings = new Findings('signers')
  const test = new SignersTest(signers, findings)
  const timers = new TimerWatch()
  try {
    await test.run(samples)
    findings.finish()
    findings.where = 'the end'
    for (const origin of await timers.leftAfter(TIMER_LIMIT))
      findings.add('timers', `a timer still runs: ${origin}`)
  } finally {
    timers.end()
  }
  findings.finish()
  return { calls: test.calls }
}
