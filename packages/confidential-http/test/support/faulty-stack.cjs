// A stack for enclaves that fail: the path of the URL says how.
const { confidentialPreset } = require('@sluice/confidential-http')

/** Errors as careless code makes them: whatever they carry is a secret. */
function revealingError({ released }) {
  const [secret] = released.values()
  class RevealingError extends Error {}
  const error = new RevealingError(`failed with ${secret}`, { cause: { secret } })
  error.name = secret
  error.code = secret
  error.bytes = Buffer.from(secret)
  return error
}

const never = new Promise(() => {})

const faults = {
  '/exit': () => process.exit(3),
  '/spin': () => {
    for (;;);
  },
  '/memory': () => {
    const filled = []
    for (;;) filled.push(new Array(1000).fill({}))
  },
  '/throw-after': async (call, next) => {
    await next(call)
    throw new RangeError('after it was sent')
  },
  '/throw-before': () => {
    throw new RangeError('before it was sent')
  },
  '/throw': call => {
    throw revealingError(call)
  },
  '/throw-later': call => {
    setTimeout(() => {
      throw revealingError(call)
    })
    return never
  },
  '/reject-later': call => {
    void Promise.reject(revealingError(call))
    return never
  },
  // What the thread was started with.
  '/thread': () => ({
    kind: 'confidential',
    status: 200,
    multiHeaders: new Map(),
    body: Buffer.from(
      JSON.stringify({
        env: process.env,
        execArgv: process.execArgv,
        order: require('node:dns').getDefaultResultOrder(),
      }),
    ),
  }),
  '/function': () => ({
    kind: 'confidential',
    status: 200,
    multiHeaders: new Map(),
    body: () => 0,
  }),
}

module.exports = function faultyStack(options) {
  const attempt = next => async call =>
    faults[new URL(call.url).pathname]?.(call, next) ?? next(call)
  return [...confidentialPreset(options), { name: 'faults', attempt }]
}
