import type { Plugin } from '../../client/contract/plugin.js'
import { asError } from '../../core/errors.js'
import { countProcessListeners, setImmediate, watchRejections } from '../../platform/globals.js'
import { Findings } from '../faults.js'
import type { SampleWire } from '../service.js'
import type { Turn } from '../turn.js'
import { isPlanted, nameOf } from './observer.js'
import { scenarios } from './scenarios.js'
import { warmUp } from './warm-up.js'
import { PATIENCE, type Scenario, World, type WorldSettings } from './world.js'

/** Makes the plugin. It gets the functions that reach the service. */
export type Make = (wire: SampleWire) => Plugin

/** A world after its scenario. */
interface Outcome {
  readonly world: World
  /** What had not ended before the clients were closed. */
  readonly unsettled: readonly string[]
  /** The calls that had not settled before the clients were closed, and at the end. */
  readonly openCalls: readonly string[]
  readonly pendingCalls: readonly string[]
  /** Where each timer was started that was left after the clients were closed. */
  readonly timers: readonly string[]
  /** What else was left, by what it is and where. */
  readonly left: Readonly<Record<string, number>>
}

/** Real milliseconds in which a module may be loaded, or a thread may answer. */
const GRACE = 10
/** The most timers that may run while a scenario waits once. */
const MAX_STEPS = 20_000

/** Resolves when the program waits for timers alone: work of the thread pool is done, too. */
async function settled(): Promise<void> {
  const iteration = (): Promise<void> => new Promise(resolve => setImmediate(resolve))
  await iteration()
  const data = new Uint8Array(1)
  const digest = (): Promise<unknown> => globalThis.crypto.subtle.digest('SHA-256', data)
  // The pool has four threads by default, and takes tasks in order.
  await Promise.all([digest(), digest(), digest(), digest()])
  await iteration()
}

/** Plays all scenarios, each without the plugin and with it. Returns how many were played. */
export async function playAll(
  turn: Turn,
  make: Make,
  name: string,
  settings: WorldSettings,
  findings: Findings,
): Promise<number> {
  const rejections: unknown[] = []
  const endWatch = await watchRejections(reason => rejections.push(reason))
  try {
    await warmUp()
    // Loads what the plugin loads with the first call. Nothing is checked.
    const [first] = scenarios as readonly [Scenario]
    await play(turn, first, make, settings, new Findings(''))
    for (const scenario of scenarios) {
      const expected = await play(turn, scenario, () => ({ name }), settings, new Findings(''))
      rejections.length = 0
      const found = await play(turn, scenario, make, settings, findings)
      await settled()
      for (const reason of rejections)
        if (!isPlanted(reason))
          findings.add(
            'throws',
            `a promise was rejected, and nobody caught it: ${asError(reason).message}`,
          )
      compare(expected, found, settings, findings)
    }
  } finally {
    endWatch()
  }
  return scenarios.length
}

async function play(
  turn: Turn,
  scenario: Scenario,
  make: Make,
  settings: WorldSettings,
  findings: Findings,
): Promise<Outcome> {
  const listeners = countProcessListeners()
  const time = turn.startTime({ settled, origins: true, grace: GRACE, maxSteps: MAX_STEPS })
  const world = new World(time, findings, settings, make, scenario)
  async function attempt(work: Promise<void>): Promise<void> {
    try {
      await work
    } catch (thrown) {
      findings.add('throws', `it threw: ${asError(thrown).stack ?? asError(thrown).message}`)
    }
  }
  try {
    world.begin('')
    await attempt(scenario.play(world))
    world.begin('')
    checkHeld(world)
    for (const { observer } of world.members) observer.checkReports()
    const unsettled = [...world.pending]
    const openCalls = pendingCallsOf(world)
    const onClient = world.members.reduce((sum, { signal }) => sum + signal.listeners, 0)
    await attempt(world.close())
    const onUser = world.userSignals.reduce((sum, signal) => sum + signal.listeners, 0)
    const timers = time.timerOrigins
    // What a plugin does too late happens now.
    await attempt(time.pass(PATIENCE))
    const left = {
      'listener: on the signal of the client': onClient,
      'listener: on a signal of the user': onUser,
      'listener: on the process': countProcessListeners() - listeners,
      'connection: open': world.service.connections.size,
    }
    const pendingCalls = [...world.pending, ...pendingCallsOf(world)]
    return { world, unsettled, openCalls, pendingCalls, timers, left }
  } finally {
    time.end()
  }
}

/** The operations of the user's calls that have not settled. */
const pendingCallsOf = ({ members }: World): readonly string[] =>
  members.flatMap(({ observer }) =>
    observer.calls
      .filter(({ call, isSettled }) => !isSettled && call.purpose === 'user')
      .map(({ call }) => call.operation),
  )

/** A report that has not left by now is dropped or held, if its stream is still open. */
function checkHeld({ members, findings, settings: { may } }: World): void {
  if (may.has('drop')) return
  for (const { observer } of members)
    for (const lane of observer.lanes) {
      if (lane.scope.signal.aborted && lane.scope.kind === 'stream') continue
      const [missing] = observer.missing(lane)
      if (missing === undefined) continue
      if (may.has('delay')) findings.add('hold', `it never passed on ${nameOf(missing)}`)
      else findings.add('drop', `it did not pass on ${nameOf(missing)}`)
    }
}

/** Compares a world that has the plugin with a world that lacks it. */
function compare(
  expected: Outcome,
  found: Outcome,
  { may }: WorldSettings,
  findings: Findings,
): void {
  // A plugin that rejects calls itself chooses the error, unless the pipeline made it.
  const mayChoose = may.has('refuse') || may.has('repeat') || may.has('answer')
  for (const [label, { how }] of expected.world.endings) {
    const ending = found.world.endings.get(label)
    const isStuck = found.unsettled.includes(label) && !expected.unsettled.includes(label)
    if (ending === undefined) findings.add('settle', `${label} never settled`)
    else if (isStuck) findings.add('settle', `${label} did not settle until the client was closed`)
    else if (ending.how !== how && !expected.world.cutShort.has(label)) {
      const isSuccess = ending.how === 'success'
      const isBetter = isSuccess && (may.has('repeat') || may.has('answer'))
      const isRefused = how === 'success' && (may.has('refuse') || may.has('drop'))
      const isOther = !isSuccess && how !== 'success' && mayChoose && !/PLUGIN/.test(ending.how)
      const text = `${label} ended with ${ending.how}, and without the plugin with ${how}.`
      findings.check(isBetter || isRefused || isOther, 'reply', `${text} ${ending.reason}`.trim())
    }
  }
  const timers = found.timers.slice(expected.timers.length)
  if (timers.length > 0)
    findings.add(
      'timer',
      `${timers.length} left after the client was closed, started in ${timers.at(-1)}`,
    )
  for (const [what, count] of Object.entries(found.left)) {
    const more = count - (expected.left[what] as number)
    const [rule, where] = what.split(': ') as [string, string]
    findings.check(more <= 0, rule, `${more} left, ${where}`)
  }
  for (const name of found.pendingCalls)
    if (!expected.pendingCalls.includes(name)) findings.add('settle', `${name} never settled`)
  for (const name of found.openCalls)
    if (!expected.openCalls.includes(name))
      findings.add('settle', `the call ${name} did not settle until the client was closed`)
}
