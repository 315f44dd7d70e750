import type { Report } from '../../../report/report.js'
import type { Dice } from '../../fuzz/dice.js'
import type { Target } from './fuzz.js'
import { anyWording, type JSONValue, mutateJSON, writeJSON } from './json-mutations.js'
import { mutateText } from './mutations.js'

export const NOW = 1_700_000_000_000
export const now = (): number => NOW
export const encoder: InstanceType<typeof TextEncoder> = new TextEncoder()
export const signal: AbortSignal = new AbortController().signal

export const ofText = {
  show: (text: string): string => JSON.stringify(text),
  sizeOf: (text: string): number => text.length,
}
export const ofBytes = {
  show: (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64'),
  sizeOf: (bytes: Uint8Array): number => bytes.byteLength,
}

/** A target that reads text like these. */
export function text(
  name: string,
  samples: readonly string[],
  read: (text: string) => unknown,
  more: Partial<Target<string>> = {},
): Target<string> {
  return { name, make: dice => mutateText(samples, dice), read, ...ofText, ...more }
}

/** A target that reads JSON like this. */
export function json(
  name: string,
  samples: readonly JSONValue[],
  read: (text: string) => unknown,
  more: Partial<Target<string>> = {},
): Target<string> {
  return { name, make: dice => makeJSON(samples, dice), read, ...ofText, ...more }
}

export function makeJSON(samples: readonly JSONValue[], dice: Dice): string {
  let value = dice.pick(samples)
  for (let changes = dice.length(2); changes > 0; changes--) value = mutateJSON(value, dice)
  const written = writeJSON(value, dice, anyWording(dice))
  return dice.once(3) ? mutateText([written], dice) : written
}

export function assert(condition: boolean, rule: string): asserts condition {
  if (!condition) throw new Error(`not as promised: ${rule}`)
}

export function checkTimes({ feedID, validFromTimestamp, observationsTimestamp }: Report): void {
  assert(/^0x[0-9a-f]{64}$/.test(feedID), 'a feed id in normal form')
  for (const time of [validFromTimestamp, observationsTimestamp])
    assert(Number.isSafeInteger(time) && time >= 0, 'times that are times')
}
