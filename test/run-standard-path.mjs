// The tests near the wire without the fast path: ws reads the frames, JSON.parse reads the messages, and a table decodes the digits.
import { runJest } from './support/jest/run.mjs'

const near =
  '/test/(client|fuzz|model/(life|mute)|report/digits|wire/(flow-control|ha/|half-open|junk|stream/))'
process.exitCode = await runJest(['--testPathPatterns', near, ...process.argv.slice(2)], {
  FAST_PATH: 'off',
})
