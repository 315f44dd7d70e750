// The tests: npm test, or npm test -- FILE … for some of them.
import { runJest } from './support/jest/run.mjs'

process.exitCode = await runJest(process.argv.slice(2))
