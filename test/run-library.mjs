// The tests of the library that open no socket, for whoever changes something in it: npm run test:library, in under a minute on a
// quiet machine. The rule: the folders of test/ that are named for those of the library, and test/architecture/, without what is
// below. A test of these that listens or connects fails: put it in test/wire/, or its file below.
import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const pathOf = file => fileURLToPath(new URL(file, import.meta.url))
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
const jest = [
  pathOf('../node_modules/jest/bin/jest.js'),
  ...['--selectProjects', 'computing'],
  ...['--testPathIgnorePatterns', '\\.(long|nats)\\.test\\.ts$', ...left],
  ...['--testPathPatterns', `/test/(${folders})/`],
]
const child = spawn(process.execPath, [...jest, ...process.argv.slice(2)], {
  env: {
    ...process.env,
    NODE_OPTIONS: `${process.env.NODE_OPTIONS ?? ''} --require "${pathOf('support/jest/no-sockets.cjs').replaceAll('\\', '/')}"`,
  },
  stdio: 'inherit',
})
child.on('close', code => {
  process.exitCode = code ?? 1
})
