// The tests: npm test, or npm test -- PATH … for some of them. With --detect it names what keeps a worker alive.
import { runJest } from './support/jest/run.mjs'

process.exitCode = await runJest(process.argv.slice(2))
