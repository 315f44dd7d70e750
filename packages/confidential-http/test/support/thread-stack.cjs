// A stack that says in the answer which thread it ran in.
const { threadId } = require('node:worker_threads')
const { confidentialPreset } = require('@sluice/confidential-http')

module.exports = options => [
  {
    name: 'thread-id',
    call: next => async call => {
      const reply = await next(call)
      return {
        ...reply,
        multiHeaders: new Map([...reply.multiHeaders, ['X-Thread', [String(threadId)]]]),
      }
    },
  },
  ...confidentialPreset(options),
]
