// The tests near the wire with the doors of the fast lane closed: ws reads the frames, JSON.parse the messages, a table the digits.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const jest = fileURLToPath(new URL('../node_modules/jest/bin/jest.js', import.meta.url))
const near =
  '/test/(client|fuzz|model/(life|mute)|report/digits|wire/(flow-control|ha/|half-open|junk|stream/))'
const child = spawn(
  process.execPath,
  [jest, '--testPathPatterns', near, ...process.argv.slice(2)],
  {
    env: { ...process.env, FAST_LANE: 'closed' },
    stdio: 'inherit',
  },
)
child.on('close', code => {
  process.exitCode = code ?? 1
})
