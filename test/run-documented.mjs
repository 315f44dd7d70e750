// The tests near the wire with the doors of the fast lane closed: ws reads the frames, JSON.parse the messages, a table the digits.
import { runJest } from './support/jest/run.mjs'

const near =
  '/test/(client|fuzz|model/(life|mute)|report/digits|wire/(flow-control|ha/|half-open|junk|stream/))'
process.exitCode = await runJest(['--testPathPatterns', near, ...process.argv.slice(2)], {
  FAST_LANE: 'closed',
})
