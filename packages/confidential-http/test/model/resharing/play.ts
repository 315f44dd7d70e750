/** Plays a world of resharing: what was broken in it, and all that happened. (The world is loaded with the mocks in place.) */
export async function play(
  seed: number,
): Promise<{ broken: readonly string[]; story: readonly string[] }> {
  const { World } = await import('./world.js')
  const world = new World(seed)
  await world.run()
  return world
}
