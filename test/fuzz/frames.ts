import {
  anyWording,
  type JSONValue,
  mutateJSON,
  writeJSON,
} from '../support/fuzz/json-mutations.js'
import { mutateBytes, mutateText, randomBytes } from '../support/fuzz/mutations.js'
import { feedIDOf } from '../support/report/report-arbitrary.js'
import { mutants } from '../support/report/report-mutations.js'
import type { Dice } from './dice.js'
import { type Record, records } from './samples.js'

const encoder = new TextEncoder()

/** A message of the stream: valid, in other words, wrong in one place, damaged as text, damaged as bytes, or noise. */
export function makeFrame(dice: Dice): Uint8Array {
  if (dice.once(20)) return randomBytes(dice)
  let frame: JSONValue = { report: makeRecord(dice) }
  if (dice.once(6))
    frame = dice.once(2) ? { seq: 1, ...frame } : { ...frame, next: [{ report: 1 }] }
  if (dice.once(4)) frame = mutateJSON(frame, dice)
  let text = writeJSON(frame, dice, anyWording(dice))
  if (dice.once(50)) text = `\ufeff${text}`
  if (dice.once(4)) text = mutateText([text], dice)
  const bytes = encoder.encode(text)
  return dice.once(8) ? mutateBytes([bytes], dice) : bytes
}

function makeRecord(dice: Dice): JSONValue {
  const record: Record = dice.pick(records)
  const { validFromTimestamp, observationsTimestamp } = record
  let { feedID, fullReport } = record
  if (dice.once(8)) feedID = `0x${feedID.slice(2).toUpperCase()}`
  if (dice.once(8)) fullReport = `0x${fullReport.slice(2).toUpperCase()}`
  if (dice.once(30)) feedID = feedIDOf(3, 's', BigInt(dice.below(9)))
  if (dice.once(6)) {
    const original = { version: 7, resolution: 'ms', feedID, fullReport } as const
    const [mutant] = mutants(original as Parameters<typeof mutants>[0], dice.below(2 ** 31), 1)
    if (mutant !== undefined) ({ feedID, fullReport } = mutant)
  }
  return {
    feedID,
    ...(dice.once(10) ? {} : { validFromTimestamp: nearby(validFromTimestamp, dice) }),
    ...(dice.once(10) ? {} : { observationsTimestamp: nearby(observationsTimestamp, dice) }),
    fullReport,
    ...(dice.once(10) ? { signature: 'none', nested: { report: { feedID } } } : {}),
  }
}

function nearby(time: number, dice: Dice): number {
  return dice.once(12) ? time + dice.below(5) - 2 : time
}
