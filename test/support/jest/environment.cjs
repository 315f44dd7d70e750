// Treats the files of a joined realm each by itself. Says what a test that failed was waiting for. Writes down how long each test file took,
// by the clock and by the processor, for the list of the slowest files.
const { appendFileSync, readFileSync } = require('node:fs')
const { relative } = require('node:path')
const { TestEnvironment } = require('jest-environment-node')

module.exports = class MeasuredEnvironment extends TestEnvironment {
  #name
  #since
  #begin
  /** The state of the test framework. */
  #state

  constructor(config, context) {
    super(config, context)
    this.#name = relative(config.projectConfig.rootDir, context.testPath)
    this.#begin = this.#since = now()
    this.#keepLinesOfStacks()
    // A test that ends the process would end the run, as if it had passed.
    this.global.process.exit = code => process.exit(code || 1)
    this.global.keepBlock = () => {
      const { currentDescribeBlock: block } = this.#state
      return () => {
        this.#state.currentDescribeBlock = block
      }
    }
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

  handleTestEvent({ name, describeBlock, test, hook }, state) {
    this.#state = state
    if (name === 'run_start') selectTests(state)
    if (name === 'test_fn_failure') this.#tellAwaited(test)
    if (name === 'hook_failure' && hook.type === 'afterAll') giveToFile(state, describeBlock)
    if (!isFile(describeBlock)) return
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

/** Whether a block of tests is a file of a joined realm. */
function isFile(block) {
  return block?.parent?.name === 'ROOT_DESCRIBE_BLOCK' && /\.test\.ts$/.test(block.name)
}

const testsOf = block =>
  block.children.flatMap(child => (child.type === 'test' ? [child] : testsOf(child)))

/** The name of a test, without that of its file. */
function nameIn(file, { name, parent }) {
  const titles = [name]
  for (let block = parent; block !== file; block = block.parent) titles.unshift(block.name)
  return titles.join(' ')
}

/**
 * Applies `test.only` and `-t` in each file of a joined realm by itself. That a file does not load is never left out.
 */
function selectTests(state) {
  const files = state.rootDescribeBlock.children.filter(isFile)
  if (files.length === 0) return
  const { testNamePattern: pattern } = state
  for (const file of files) {
    const tests = testsOf(file).filter(({ name }) => name !== 'the file loads')
    const isFocused = tests.some(({ mode }) => mode === 'only')
    for (const test of tests) {
      const isNamed = pattern === null || pattern.test(nameIn(file, test))
      if (!isNamed || (isFocused && test.mode === undefined)) test.mode = 'skip'
    }
  }
  state.hasFocusedTests = false
  state.testNamePattern = null
}

/** An error after all tests of a file belongs to its last test: no other file fails because of it. */
function giveToFile(state, block) {
  let file = block
  while (file !== undefined && !isFile(file)) file = file.parent
  if (file === undefined) return
  const last = testsOf(file).findLast(({ status }) => status === 'done')
  if (last !== undefined) last.errors.push(state.unhandledErrors.pop())
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
