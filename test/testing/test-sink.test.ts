import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import type { Candle } from '../../plugins/candles/index.js'
import type { SinkBatch, SinkPosition, SinkStore } from '../../plugins/sink/index.js'
import type { Report } from '../../report/report.js'
import { ConformanceError, type SinkTestOptions, testSink } from '../../testing/index.js'
import { root } from '../support/sources.js'
import { failureOf } from '../support/waiting.js'
import { documentedRules } from './documented-rules.js'

interface Row {
  readonly feedID: string
  readonly observationsTimestamp: number
  readonly price: bigint
}

/** The place where stores of one test put what they are given. */
class Place {
  rows: Row[] = []
  candles: Candle[] = []
  position: SinkPosition = {}
}

/** A store that keeps the rules. */
class RightStore implements SinkStore {
  readonly name: string = 'a place in memory'
  readonly place: Place

  constructor(place: Place) {
    this.place = place
  }

  async open(): Promise<void> {}

  async write({ reports, candles, position }: SinkBatch): Promise<readonly never[]> {
    for (const report of reports) this.put(report)
    for (const candle of candles) this.putCandle(candle)
    if (position !== undefined) this.putPosition(position)
    return []
  }

  put(report: Report): void {
    if (!this.has(report)) this.place.rows.push(rowOf(report))
  }

  has({ feedID, observationsTimestamp: time }: Report): boolean {
    return this.place.rows.some(row => row.feedID === feedID && row.observationsTimestamp === time)
  }

  putCandle(candle: Candle): void {
    const { candles } = this.place
    const at = candles.findIndex(
      each => each.feedID === candle.feedID && each.start === candle.start,
    )
    if (at === -1) candles.push(candle)
    else if ((candles[at] as Candle).revision <= candle.revision) candles[at] = candle
  }

  putPosition(position: SinkPosition): void {
    this.place.position = { ...this.place.position, ...position }
  }

  async position(): Promise<SinkPosition> {
    return { ...this.place.position }
  }

  async close(): Promise<void> {}
}

function rowOf({ feedID, observationsTimestamp, decoded }: Report): Row {
  return { feedID, observationsTimestamp, price: (decoded as { readonly price: bigint }).price }
}

function check(Store: new (place: Place) => SinkStore, options: Partial<SinkTestOptions> = {}) {
  const place = new Place()
  return testSink(() => new Store(place), {
    read: async () => place.rows,
    readCandles: async () => place.candles,
    ...options,
  })
}

test('a store that keeps the rules passes', async () => {
  const result = await check(RightStore)
  expect(result).toMatchObject({ hasPosition: true, refused: 0 })
})

describe('testSink finds', () => {
  test.each<[string, string, new (place: Place) => SinkStore]>([
    [
      'prices that went through a float',
      'exact',
      class extends RightStore {
        override put(report: Report) {
          if (this.has(report)) return
          const row = rowOf(report)
          this.place.rows.push({ ...row, price: BigInt(Number(row.price)) })
        }
      },
    ],
    [
      'a position that is the newest time, so that what comes late is left out',
      'late',
      class extends RightStore {
        override put(report: Report) {
          const times = this.place.rows
            .filter(row => row.feedID === report.feedID)
            .map(row => row.observationsTimestamp)
          if (report.observationsTimestamp > Math.max(0, ...times)) super.put(report)
        }
      },
    ],
    [
      'rows that come twice when an answer was lost',
      'once',
      class extends RightStore {
        override put(report: Report) {
          this.place.rows.push(rowOf(report))
        }
      },
    ],
    [
      'a limit on the rows of one statement',
      'whole',
      class extends RightStore {
        override write({ reports, ...batch }: SinkBatch) {
          return super.write({ ...batch, reports: reports.slice(0, 256) })
        }
      },
    ],
    [
      'an older candle that replaces a newer one',
      'candles',
      class extends RightStore {
        override putCandle(candle: Candle) {
          const { candles } = this.place
          this.place.candles = [...candles.filter(({ feedID }) => feedID !== candle.feedID), candle]
        }
      },
    ],
    [
      'a position that never moves back',
      'position-written',
      class extends RightStore {
        override putPosition(position: SinkPosition) {
          const kept = { ...this.place.position }
          for (const [id, time] of Object.entries(position))
            kept[id] = Math.max(kept[id] ?? 0, time)
          this.place.position = kept
        }
      },
    ],
    [
      'a position that ends with the process',
      'position-kept',
      class extends RightStore {
        #position: SinkPosition = {}
        override putPosition(position: SinkPosition) {
          this.#position = { ...this.#position, ...position }
        }
        override async position() {
          return this.#position
        }
      },
    ],
    [
      'rows that are written after write has resolved',
      'rows',
      class extends RightStore {
        override async write(batch: SinkBatch) {
          setTimeout(() => void super.write(batch), 20)
          return []
        }
      },
    ],
    [
      'a report that is refused without need',
      'refuses',
      class extends RightStore {
        override async write(batch: SinkBatch) {
          const negative = batch.reports.filter(report => rowOf(report).price < 0n)
          await super.write({
            ...batch,
            reports: batch.reports.filter(report => !negative.includes(report)),
          })
          return negative.map(report => ({ report, reason: 'it is negative' })) as never
        }
      },
    ],
    [
      'a store without a name',
      'shape',
      class extends RightStore {
        override readonly name: string = ''
      },
    ],
  ])('%s', async (_fault, rule, Store) => {
    const error = (await failureOf(check(Store))) as unknown as ConformanceError
    expect(error).toBeInstanceOf(ConformanceError)
    const rules = error.faults.map(fault => fault.rule)
    if (rule === 'rows') expect(rules).toEqual(expect.arrayContaining(['exact']))
    else expect(rules).toContain(rule)
  })

  test('nothing in a queue, which may repeat, and refuses the widest', async () => {
    class Queue extends RightStore {
      override async write({ reports }: SinkBatch) {
        const widest = 10n ** 38n
        const isWide = (report: Report) =>
          rowOf(report).price >= widest || rowOf(report).price <= -widest
        this.place.rows.push(...reports.filter(each => !isWide(each)).map(rowOf))
        return reports
          .filter(isWide)
          .map(report => ({ report, reason: 'price needs 39 digits' })) as never
      }
    }
    Object.defineProperty(Queue.prototype, 'position', { value: undefined })
    const result = await check(Queue, {
      mayRepeat: true,
      mayRefuse: true,
      readCandles: undefined as never,
    }).catch((error: unknown) => error)
    expect(result).toMatchObject({ hasPosition: false, refused: 4 })
  })
})

test('the rules are those of the documentation', () => {
  const read = (file: string): string => readFileSync(join(root, 'testing', file), 'utf8')
  const source = read('test-sink.ts') + read('faults.ts')
  for (const rule of documentedRules('A store of a sink')) expect(source).toContain(`'${rule}'`)
})
