import { given } from '../command.js'
import { type Facts, type Finding, notChecked, type Status } from '../doctor/check.js'

/** What a check found. `noted`: nothing is documented that it could be held against. */
export type RecordVerdict = 'pass' | 'deviation' | 'noted' | 'not tested'

/** A finding about what differs from the documentation. */
export const deviation = (text: string, facts?: Facts): Finding => ({
  status: 'failed',
  text,
  ...given({ facts }),
})

/** A finding about what is not documented. */
export const noted = (text: string, facts?: Facts): Finding => ({
  status: 'warning',
  text,
  ...given({ facts }),
})

const verdicts: Readonly<Record<Status, RecordVerdict>> = {
  failed: 'deviation',
  'not checked': 'not tested',
  warning: 'noted',
  ok: 'pass',
}

/** The verdict of a finding. */
export const verdictOf = ({ status }: Finding): RecordVerdict => verdicts[status]

/** The verdict on a check, which is that of its worst finding. A part that passed is a pass. */
export function verdictOn(findings: readonly Finding[]): RecordVerdict {
  const found = findings.map(verdictOf)
  const order: readonly RecordVerdict[] = ['deviation', 'pass', 'noted']
  return order.find(verdict => found.includes(verdict)) ?? 'not tested'
}

/** The most examples of one deviation that are kept. */
const EXAMPLES = 3

/** Counts how often a rule was looked at, and how often it was broken. */
export class Tally {
  #checked = 0
  #broken = 0
  readonly #examples: string[] = []

  /** Counts a case. `problem` says how it breaks the rule. */
  count(problem?: string): void {
    this.#checked++
    if (problem === undefined) return
    this.#broken++
    if (this.#examples.length < EXAMPLES && !this.#examples.includes(problem))
      this.#examples.push(problem)
  }

  /** The finding on all cases. `cases` names them, such as `reports`. */
  finding(cases: string): Finding {
    const facts = { checked: this.#checked, broken: this.#broken }
    if (this.#checked === 0) return notChecked(`there were no ${cases}`)
    if (this.#broken === 0) return { status: 'ok', text: `${this.#checked} ${cases}`, facts }
    const examples = this.#examples.join('; ')
    return deviation(`${this.#broken} of ${this.#checked} ${cases}: ${examples}`, facts)
  }
}
