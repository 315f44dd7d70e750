// Runs one row with one SDK, from the engine's start to what is left when the client has closed.
import { isMeasuredByLosses } from './bounds.mjs'
import { complaintOf } from './client.mjs'
import { figuresOf } from './figures.mjs'
import { pause } from './waiting.mjs'
import { createWorld } from './world.mjs'

/** How long the reports that are missing at the end of a row may take to come, in ms. */
const DRAIN = 15_000
/** The same for a client that does not fetch what is missing: once nothing of it comes any more. */
const PATIENCE = 2000

/** The figures of a row, and what is to be said besides. Rejects where the row itself is broken. */
export async function runRow(row, sdk, seed) {
  const given = { ...row, ...(sdk === 'official' ? row.official : {}) }
  const { world, close } = await createWorld(given, sdk, seed)
  try {
    const complaint = await live(given, world)
    world.engine.pause()
    if (isMeasuredByLosses(row)) await drain(world)
    world.measured.isAlive = world.client?.isAlive() ?? true
    const lastComplaint = await takeLeave(world)
    return { figures: figuresOf(world), says: sayOf(world.clients, complaint ?? lastComplaint) }
  } finally {
    await close()
  }
}

/** Acts the row out. Where the client dies, or fails in what it is asked, says how; of ours that breaks the row. */
async function live(row, world) {
  try {
    await row.prepare?.(world)
    if (row.connect !== false) {
      await world.create()
      await world.connect()
      await world.settle()
    }
    await row.run(world)
  } catch (error) {
    if (world.isOurs || error instanceof TypeError) throw error
    return error.message
  }
}

/** Waits for what is missing, as long as any of it may come. */
async function drain({ client, isOurs, lost }) {
  const end = performance.now() + DRAIN
  let left = lost().length
  for (let changedAt = performance.now(); left > 0 && client?.isAlive(); ) {
    const now = performance.now()
    if (now > end || (!isOurs && now - changedAt > PATIENCE)) break
    await pause(50)
    const still = lost().length
    if (still !== left) changedAt = now
    left = still
  }
  // Copies may still come.
  await pause(300)
}

/** Closes the client, and takes the figures of that. */
async function takeLeave({ client, isOurs, measured, before }) {
  if (!client?.isAlive()) return
  try {
    const { heap, mostSockets } = await client.ask('sample')
    measured.mostSockets = mostSockets
    if (before !== undefined) measured.heapGrowthMB = (heap - before.heap) / 1e6
    const { ms, handles, late } = await client.ask('close')
    Object.assign(measured, { closeMs: ms, handles: handles.length, late: late.length })
  } catch (error) {
    if (isOurs) throw error
    return error.message
  }
}

function sayOf(clients, complaint) {
  const dead = clients.filter(client => client.of('uncaught').length > 0)
  if (dead.length > 0) return dead.map(client => `the process dies: ${complaintOf(client)}`)
  return complaint === undefined ? [] : [`error "${complaint}"`]
}
