// What a malicious holder does with each message, at each step, while a key is reshared or rotated.
import { expect, test } from '@jest/globals'
import { ACTIONS, type Action, type Kind, Liar, MESSAGES, standBefore } from './holder-attack.js'
import {
  addressesOf,
  type Holder,
  introduce,
  open,
  sharesOf,
  startHolders,
} from './holder-processes.js'
import { nameOf, reveal, VALUE, vault } from './vault.js'

export interface Row {
  readonly action: Action
  readonly kind: Kind
  readonly step: Kind
}

const PAIRS = [
  [0, 1],
  [1, 2],
  [0, 2],
]

const isOfItself = (action: Action): boolean =>
  ACTIONS.indexOf(action) >= ACTIONS.indexOf('withhold')

/** All that there is to do: what a holder withholds or lies about is at the step of that message. */
const ROWS: readonly Row[] = ACTIONS.flatMap(action =>
  MESSAGES.flatMap(kind =>
    MESSAGES.flatMap(step => (isOfItself(action) && step !== kind ? [] : [{ action, kind, step }])),
  ),
)

type Change = 'reshare' | 'rotate'

/** Runs the rows that are wanted, against each change: by default the whole table. */
export function testAttacks(isWanted: (row: Row, change: Change) => boolean = () => true): void {
  for (const change of ['reshare', 'rotate'] as const) {
    const wanted = ROWS.filter(row => isWanted(row, change))
    const steps = MESSAGES.filter(step => wanted.some(row => row.step === step))
    if (steps.length === 0) continue
    test.each(steps)(
      `a malicious holder destroys nothing while the vault is to ${change}, and is named for its lies, at the step "%s"`,
      async step => {
        await vault.put({ key: 'key' }, VALUE, { policy: 'anywhere' })
        const holders = (await startHolders(3, vault.writerKey)) as [Holder, Holder, Holder]
        introduce(holders)
        await vault.reshare({ addresses: addressesOf(holders) })
        const [first, second, third] = holders
        const liar = new Liar(third, [first, second])
        const url = await standBefore(third, liar.front)
        // The first: of the old holders, the first of so many as it takes are chosen.
        const remote = await open()
        await remote.reshare({ addresses: addressesOf([{ ...third, url }, first, second]) })
        const alter = () => (change === 'reshare' ? remote.reshare() : remote.rotate())
        for (const row of wanted.filter(each => each.step === step)) {
          Object.assign(liar, row, { isActing: true, acts: 0 })
          const { isDone, text } = await alter().then(
            ({ leftOut }) => ({ isDone: true, text: leftOut.join('\n') }),
            (error: Error) => ({ isDone: false, text: error.message }),
          )
          liar.isActing = false
          const shown = { ...row, text }
          expect({ ...shown, acts: liar.acts }).not.toEqual({ ...shown, acts: 0 })
          if (!isOfItself(row.action))
            expect({ ...row, isDone, text }).toEqual({ ...row, isDone: true, text: '' })
          else
            for (const line of linesOf(text))
              expect({ ...row, line }).toEqual({ ...row, line: expect.stringContaining(url) })
          expect(await reveal(remote, nameOf('key'), [1, 2])).toBe(VALUE)
          if (isOfItself(row.action)) {
            expect({ ...row, text }).toEqual({ ...row, text: expect.stringContaining(url) })
            // Nobody has deleted what it takes to go on.
            expect(await alter()).toMatchObject({ leftOut: [] })
          }
          for (const pair of PAIRS) expect(await reveal(remote, nameOf('key'), pair)).toBe(VALUE)
          for (const holder of holders)
            expect(sharesOf(holder)).toEqual([`${remote.generation}.json`])
        }
      },
      600_000,
    )
  }
}

/** The lines that name a holder. */
const linesOf = (text: string): string[] =>
  text.split('\n').filter(line => /holder \d? ?at http/.test(line))
