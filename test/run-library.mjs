// The tests of the library that open no socket, for whoever changes something in it: npm run test:library, in under a minute on a
// quiet machine. The rule: the folders of test/ that are named for those of the library, and test/architecture/, without what is
// below. A test of these that listens or connects fails: put it in test/wire/, or its file below.
import { fileURLToPath } from 'node:url'
import { runJest } from './support/jest/run.mjs'

const noSockets = fileURLToPath(new URL('support/jest/no-sockets.cjs', import.meta.url))
const folders = 'architecture|client|core|crypto|platform|plugins|presets|report|stores'
const left = [
  // Random inputs by the thousand.
  'test/report/decoder/(differential|mutation)',
  // These ask servers of their own.
  'test/client/(egress/proxies|request/history|transport/socket)\\.',
  'test/plugins/(bearer-auth|hmac-auth)\\.test',
  'test/plugins/decoders/(signed-reports|witnesses)\\.',
  'test/plugins/(logging|telemetry|verify/onchain)/',
  'test/report/(future-times|json)\\.',
  'test/architecture/(options|walk)\\.',
]
const chosen = [
  ...['--selectProjects', 'computing'],
  ...['--testPathIgnorePatterns', '\\.(long|nats)\\.test\\.ts$', ...left],
  ...['--testPathPatterns', `/test/(${folders})/`],
]
const { NODE_OPTIONS = '' } = process.env
process.exitCode = await runJest([...chosen, ...process.argv.slice(2)], {
  NODE_OPTIONS: `${NODE_OPTIONS} --require "${noSockets.replaceAll('\\', '/')}"`,
})
