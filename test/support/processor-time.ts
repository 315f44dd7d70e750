/**
 * The processor time of work in milliseconds: the least of several runs. Other processes hardly change it, so two of them
 * can be compared.
 */
export async function processorTime(work: () => unknown, runs = 3): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let run = 0; run < runs; run++) {
    const before = process.cpuUsage()
    await work()
    const { user, system } = process.cpuUsage(before)
    least = Math.min(least, (user + system) / 1000)
  }
  return least
}
