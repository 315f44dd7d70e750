import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from '@jest/globals'

interface Outcome {
  readonly requests: number
  readonly served: number
  readonly received: number
  readonly twice: readonly string[]
  readonly failures: readonly string[]
  readonly lies: readonly number[]
  readonly liesInDealing: number
  readonly named: readonly number[]
  readonly reshared: { readonly done: number; readonly named: number }
}

/** Requests in a second. */
const RATE = 20
const seconds = Number(process.env.CHAOS_SECONDS ?? 5)
/** A short run takes place beside other tests, which may leave it no time for all of them. */
const isShort = process.env.CHAOS_SECONDS === undefined
/** Fewer lies may all have come when others had answered already: on a busy machine, all of one fault's. */
const ENOUGH_LIES = isShort ? 40 : 5

test(`holders that are killed, stopped and lie for ${seconds} s cost no request, and liars are named`, async () => {
  const program = join(__dirname, '../support/vault/chaos.mjs')
  const args = [program, String(seconds), String(RATE)]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  const { requests, served, received, twice, failures, lies, named, reshared, liesInDealing } =
    JSON.parse(stdout) as Outcome
  expect(failures).toEqual([])
  expect(twice).toEqual([])
  expect([served, received]).toEqual([requests, requests])
  expect(requests).toBeGreaterThanOrEqual(isShort ? seconds : (seconds * RATE) / 4)
  for (const [index, count] of lies.entries()) {
    if (count >= ENOUGH_LIES) expect([index, named[index]]).not.toEqual([index, 0])
    if (count === 0) expect([index, named[index]]).toEqual([index, 0])
  }
  expect(reshared.done).toBeGreaterThan(0)
  expect(reshared.named).toBeLessThanOrEqual(liesInDealing)
}, 180_000)
