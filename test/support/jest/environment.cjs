// Says what a test that failed was waiting for. Writes down how long each test file took, by the clock and by the processor, for the list
// of the slowest files.
const { appendFileSync, readFileSync } = require('node:fs')
const { relative } = require('node:path')
const { TestEnvironment } = require('jest-environment-node')

module.exports = class MeasuredEnvironment extends TestEnvironment {
  #name
  #since
  #begin

  constructor(config, context) {
    super(config, context)
    this.#name = relative(config.projectConfig.rootDir, context.testPath)
    this.#begin = this.#since = now()
    this.#keepLinesOfStacks()
  }

  /** Jest looks up the source of each line of each stack. A line that was looked up is kept: the library's errors read their stacks. */
  #keepLinesOfStacks() {
    const lines = new Map()
    const lineOf = frame => {
      const text = frame.toString()
      if (!lines.has(text)) lines.set(text, Error.prepareStackTrace({}, [frame]).split('\n').at(-1))
      return lines.get(text)
    }
    this.global.Error.prepareStackTrace = (error, frames) =>
      [Error.prepareStackTrace(error, []), ...frames.map(lineOf)].join('\n')
  }

  handleTestEvent({ name, describeBlock, test }) {
    if (name === 'test_fn_failure') this.#tellAwaited(test)
    if (describeBlock?.parent?.name !== 'ROOT_DESCRIBE_BLOCK') return
    if (!/\.test\.ts$/.test(describeBlock.name)) return
    if (name === 'run_describe_start') this.#lap('loading')
    if (name === 'run_describe_finish') this.#lap(describeBlock.name)
  }

  async teardown() {
    await super.teardown()
    this.#lap(this.#begin === this.#since ? this.#name : 'loading')
  }

  /** Says what a test that failed was waiting for, and ends the wait. */
  #tellAwaited(test) {
    const conditions = this.global.awaitedConditions
    for (const condition of conditions ?? [])
      test.errors.push(new Error(`the test was waiting for: ${condition}`))
    conditions?.clear()
  }

  #lap(name) {
    const before = this.#since
    this.#since = now()
    const { TEST_TIMES: file } = process.env
    if (file === undefined) return
    const [ms, cpu] = [this.#since.ms - before.ms, this.#since.cpu - before.cpu]
    appendFileSync(file, `${name}\t${Math.round(ms)}\t${Math.round(cpu)}\n`)
  }
}

/** The processor time of this worker in milliseconds, and of the processes that it has seen end, where the system says it. */
function now() {
  const { user, system } = process.cpuUsage()
  return { ms: performance.now(), cpu: (user + system) / 1000 + children() }
}

function children() {
  try {
    const fields = readFileSync('/proc/self/stat', 'utf8').split(') ').at(-1).split(' ')
    return 10 * (Number(fields[13]) + Number(fields[14]))
  } catch {
    return 0
  }
}
