// A report in the hands of the libraries that watch objects or copy them: of a view, a store of state, a tool of copies.
import { afterAll, beforeAll, expect, test } from '@jest/globals'
import { type DataEngine, startDataEngine } from '@sluice/engine'
import lodash from 'lodash'
import { autorun, makeAutoObservable, observable, runInAction } from 'mobx'
import { proxy, snapshot, subscribe } from 'valtio/vanilla'
import { computed, reactive, readonly, ref, shallowRef, toRaw, watchEffect } from 'vue'
import { type Client, createClient, type DecodedReport, type Report } from '../../index.js'
import { memoryCursors } from '../support/memory-cursors.js'
import { feedID, startService } from '../support/service/service.js'
import { until } from '../support/waiting.js'

type Any = Report<DecodedReport>

let engine: DataEngine
let client: Client<DecodedReport>
let feed: string
let page: readonly Any[]
const closers: (() => Promise<void>)[] = []
beforeAll(async () => {
  engine = await startDataEngine({ history: 40 })
  const { endpoint, wsEndpoint, apiKey, userSecret, network } = engine
  client = createClient({ endpoint, wsEndpoint, apiKey, userSecret, verify: { signers: network } })
  feed = engine.feeds.find(id => id.startsWith('0x0003')) as string
  const { observationsTimestamp: time } = await client.getLatestReport(feed)
  page = await client.getReportsPage(feed, time - 35, ways.length + 3)
})
afterAll(async () => {
  for (const close of closers) await close()
  await client.close()
  await engine.close()
})

const descriptors = (each: Any): PropertyDescriptorMap => Object.getOwnPropertyDescriptors(each)
const prototypeOf = (each: Any): object => Object.getPrototypeOf(each)

const ways: readonly (readonly [string, (each: Any) => Any])[] = [
  ['a proxy that passes itself on', each => new Proxy(each, { get: Reflect.get })],
  ['what inherits from it', each => Object.create(each)],
  ['a copy of its fields', each => Object.assign(Object.create(prototypeOf(each)), each)],
  ['a copy of its properties', each => Object.create(prototypeOf(each), descriptors(each))],
  ['a frozen report', each => Object.freeze(Object.assign(Object.create(prototypeOf(each)), each))],
  ['lodash, clone', each => lodash.clone(each)],
  ['lodash, cloneDeep', each => lodash.cloneDeep(each)],
  ['lodash, cloneDeep of a list', each => lodash.cloneDeep([each])[0] as Any],
  ['Vue, ref', each => ref(each).value as Any],
  ['Vue, reactive', each => reactive(each) as Any],
  ['Vue, reactive in a list', each => reactive([each])[0] as Any],
  ['Vue, readonly', each => readonly(each) as Any],
  ['Vue, shallowRef', each => shallowRef(each).value],
  ['Vue, computed', each => computed(() => reactive(each)).value as Any],
  ['Valtio, proxy', each => proxy({ each }).each],
  ['Valtio, snapshot', each => snapshot(proxy({ each })).each as Any],
  ['MobX, observable', each => observable({ each }).each],
  ['MobX, observable box', each => observable.box(each).get()],
  ['MobX, a report that it watches', each => makeAutoObservable(lodash.clone(each)) as Any],
]

/** What a program reads of a report. */
async function readAll(each: Any): Promise<object> {
  const { feedID: id, isNewest, verified, signedLater, origin, originID, source, fullReport } = each
  const decoded = Object.fromEntries(Object.entries(each.decoded))
  const { observationsTimestamp, validFromTimestamp, context } = each
  each.acknowledge()
  const holds = each.covers(observationsTimestamp)
  await each.verify()
  const json = JSON.parse(JSON.stringify(each))
  const flags = { isNewest, verified, signedLater, holds, isAgain: each.decoded.version }
  const facts = { id, origin, originID, source, fullReport, context: { ...context } }
  return { ...flags, ...facts, observationsTimestamp, validFromTimestamp, decoded, json }
}

test.each(ways.map(([name, hold], at) => [name, hold, at] as const))(
  '%s: has all that the report has',
  async (_name, hold, at) => {
    const fresh = page[at] as Any
    const held = await readAll(hold(fresh))
    expect(held).toEqual(await readAll(fresh))
    expect(held).toMatchObject({ verified: true, decoded: { version: 'V3' } })
    // Once the report itself was decoded.
    expect(await readAll(hold(fresh))).toEqual(held)
  },
)

test('reports of a stream are acknowledged by whoever holds them', async () => {
  const id = feedID(3, 1, { milliseconds: true })
  const service = await startService({ feeds: [id], signatures: 'dummy' })
  closers.push(service.close)
  const { apiKey, userSecret, endpoint, wsEndpoint } = service
  const own = createClient({ endpoint, wsEndpoint, apiKey, userSecret })
  closers.unshift(own.close)
  const cursors = memoryCursors()
  const stream = own.createStream(id, { cursors, saveInterval: 0, acknowledge: 'manual' })
  await stream.connect()
  for (const [, hold] of ways) {
    const { observed } = service.publish(id)
    const held = hold(await stream.read())
    expect([held.isNewest, held.verified, held.source]).toEqual([true, false, 'live'])
    held.acknowledge()
    await until(() => cursors.saved[id] === observed)
  }
})

test('a view that reads a report is drawn again when there is another, and not by its own reading', async () => {
  const shown = ref<Any>()
  const drawn: (string | undefined)[] = []
  const stop = watchEffect(() => void drawn.push(shown.value?.decoded.version), { flush: 'sync' })
  const [first, second] = page.slice(-3)
  shown.value = first
  shown.value = second
  stop()
  expect(drawn).toEqual([undefined, 'V3', 'V3'])
  expect(toRaw(shown.value)).toBe(second)

  const box = observable.box<Any | undefined>(undefined)
  const seen: (string | undefined)[] = []
  const end = autorun(() => void seen.push(box.get()?.decoded.version))
  runInAction(() => box.set(first))
  end()
  expect(seen).toEqual([undefined, 'V3'])

  const state = proxy<{ newest: Any | undefined }>({ newest: undefined })
  let changes = 0
  const leave = subscribe(state, () => void changes++)
  state.newest = first
  await until(() => changes > 0)
  expect(snapshot(state).newest?.decoded.version).toBe('V3')
  leave()
})

test('a copy with other bytes has none of the state', async () => {
  const report = page.at(-1) as Any
  await report.verify()
  expect(report.decoded.version).toBe('V3')
  const other = page.at(-2) as Any
  const forged: Any = Object.assign(Object.create(prototypeOf(report)), report, {
    fullReport: other.fullReport,
    observationsTimestamp: other.observationsTimestamp,
    validFromTimestamp: other.validFromTimestamp,
  })
  expect([report.verified, forged.verified]).toEqual([true, false])
  expect(forged.decoded).toEqual(other.decoded)
  expect(report.decoded).not.toEqual(other.decoded)
  const wrong: Any = Object.assign(Object.create(prototypeOf(report)), report, {
    fullReport: `${report.fullReport.slice(0, -1)}${report.fullReport.endsWith('1') ? 2 : 1}`,
  })
  await expect(wrong.verify()).rejects.toMatchObject({ name: 'ReportVerificationError' })
  expect([report.verified, wrong.verified]).toEqual([true, false])
  expect({ ...report }).not.toBeInstanceOf(prototypeOf(report).constructor)
})

test('a structured clone has the fields, and nothing else', () => {
  const report = page.at(-1) as Any
  const clone = structuredClone(report)
  expect(clone).toEqual({ ...JSON.parse(JSON.stringify(report)), decoded: undefined })
  expect(clone.decoded).toBeUndefined()
})
