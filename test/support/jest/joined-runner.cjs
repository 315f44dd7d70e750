// Runs the test files of a folder in one realm. A realm of its own costs each file a third of a second, which is mostly spent on loading
// the library. A file whose text says `own realm`, or that replaces modules, gets a realm of its own.
const { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } = require('node:fs')
const { tmpdir } = require('node:os')
const { dirname, join, relative, sep } = require('node:path')
const { formatResultsErrors } = require('jest-message-util')
const { default: TestRunner } = require('jest-runner')

const root = join(__dirname, '../../..')
const { TEST_FULL, TEST_NATS, TEST_SINKS } = process.env
const isLong = (TEST_FULL ?? TEST_NATS ?? TEST_SINKS) !== undefined
/**
 * The most files in a realm: a larger part would keep one worker busy when the others have ended. The files of the full tier take
 * longer.
 */
const MOST = isLong ? 3 : 12
const OWN_REALM = /\/\/ own realm\b|\bjest\s*\.(mock|doMock|unstable_mockModule|resetModules)\(/

module.exports = class JoinedRunner extends TestRunner {
  #joined = new Map()
  /** The folder of the joined files. Each run has its own. */
  #folder = mkdtempSync(join(tmpdir(), 'sluice-joined-'))

  constructor(globalConfig, context) {
    // Many tests wait for sockets: with so many workers, the cores are busy all the same.
    // Those of the full tier start processes, which need the cores, too, and CI runs two parts of it at once.
    const { maxWorkers: cores } = globalConfig
    const maxWorkers = isLong ? 2 * cores : 2 * cores + 3
    super({ ...globalConfig, maxWorkers }, context)
    process.once('exit', () => rmSync(this.#folder, { recursive: true, force: true }))
  }

  runTests(tests, watcher, options) {
    return super.runTests(this.#join(tests), watcher, options)
  }

  /** A joined file's result is told as the results of its files. */
  on(event, listener) {
    return super.on(event, args => {
      const files = this.#joined.get(args[0]?.path)
      if (files === undefined) return listener(args)
      return Promise.all(
        files.map((test, index) => {
          if (event !== 'test-file-success') return listener([test, ...args.slice(1)])
          return listener([test, this.#resultOf(test, args[1], index === 0)])
        }),
      )
    })
  }

  #join(tests) {
    const parts = new Map()
    for (const test of tests) {
      const place = dirname(test.path)
      const key = OWN_REALM.test(readFileSync(test.path, 'utf8')) ? test.path : place
      parts.set(key, [...(parts.get(key) ?? []), test])
    }
    const realms = [...parts.values()].flatMap(divide)
    // The largest part first, so that no worker begins it when the others have ended.
    return realms.sort((a, b) => sizeOf(b) - sizeOf(a)).map(files => this.#write(files))
  }

  #write(files) {
    const [first] = files
    if (files.length === 1) return first
    const path = join(
      this.#folder,
      `${this.#joined.size}-${nameOf(first).replaceAll('/', '-')}.cjs`,
    )
    writeFileSync(path, files.map(describing).join(''))
    this.#joined.set(path, files)
    return { ...first, path }
  }

  #resultOf(test, all, isFirst) {
    const name = nameOf(test)
    const testResults = all.testResults
      .filter(({ ancestorTitles }) => ancestorTitles[0] === name)
      .map(result => ({
        ...result,
        ancestorTitles: result.ancestorTitles.slice(1),
        fullName: result.fullName.slice(name.length + 1),
      }))
    const count = status => testResults.filter(result => result.status === status).length
    const { config } = test.context
    const own = formatResultsErrors(testResults, config, this._globalConfig, test.path)
    // An error that belongs to no test is told once.
    const error = isFirst ? all.testExecError : undefined
    const failures = [own, error && all.failureMessage].filter(Boolean)
    return {
      ...all,
      perfStats: { ...all.perfStats, runtime: sumOf(testResults, 'duration'), slow: false },
      testFilePath: test.path,
      testResults,
      testExecError: error,
      failureMessage: failures.length === 0 ? null : failures.join('\n'),
      console: isFirst ? all.console : undefined,
      openHandles: isFirst ? all.openHandles : [],
      leaks: isFirst && all.leaks,
      numFailingTests: count('failed'),
      numPassingTests: count('passed'),
      numPendingTests: count('pending'),
      numTodoTests: count('todo'),
      skipped: testResults.length > 0 && testResults.every(({ status }) => status === 'pending'),
    }
  }
}

const nameOf = test => relative(root, test.path).split(sep).join('/')

const sumOf = (results, key) => results.reduce((sum, result) => sum + (result[key] ?? 0), 0)

const sizeOf = files => files.reduce((sum, { path }) => sum + statSync(path).size, 0)

/** Divides the files of a folder into parts of about the same size. */
function divide(files) {
  const parts = Array.from({ length: Math.ceil(files.length / MOST) }, () => [])
  for (const [index, file] of files.entries()) parts[index % parts.length].push(file)
  return parts
}

/** The text that runs a file: as a part of the folder's tests, with helpers of its own. */
function describing(test) {
  const [name, path] = [nameOf(test), test.path].map(text => JSON.stringify(text))
  return `describe(${name}, () => {
  forgetHelpers()
  const leaveBlocks = keepBlock()
  try {
    require(${path})
  } catch (error) {
    leaveBlocks()
    test('the file loads', () => { throw error })
  }
})
`
}
