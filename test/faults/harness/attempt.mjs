/** Connects, and notes how that went: `connect` or `rejected` in ms, and what the error is. */
export async function tryToConnect({ create, connect, measured }, prepare) {
  const client = await create()
  await prepare?.(client)
  const start = performance.now()
  try {
    await connect()
    measured.connect = performance.now() - start
  } catch (error) {
    if (error.isGone) throw error
    measured.rejected = performance.now() - start
    measured.refusedAs = error.name
    return error
  }
}
