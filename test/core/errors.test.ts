import { setImmediate as nextTick } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from '@jest/globals'
import { AuthenticationError } from '../../client/contract/errors.js'
import { DataStreamsError } from '../../core/errors.js'

setFlagsFromString('--expose-gc')
const collect: () => void = runInNewContext('gc')

class Socket {
  fail(): Error {
    return new DataStreamsError('it was lost')
  }
}

test('an error in JSON has its name, its message and its facts, and neither stack nor cause', () => {
  const cause = new Error('the cause')
  const error = new AuthenticationError('no', { statusCode: 401, isRetryable: false, cause })
  expect(JSON.parse(JSON.stringify({ error }))).toEqual({
    error: {
      name: 'AuthenticationError',
      message: 'no',
      code: 'AUTHENTICATION',
      isRetryable: false,
      statusCode: 401,
      feedIDs: [],
      isCorrected: false,
    },
  })
  expect(Object.keys(error)).not.toContain('toJSON')
})

test('an error does not retain the socket in whose callback it was made', async () => {
  function fail() {
    const socket = new Socket()
    return { socket: new WeakRef(socket), error: socket.fail() }
  }
  const { socket, error } = fail()
  for (let times = 0; times < 2; times++) {
    await nextTick()
    collect()
  }
  expect(socket.deref()).toBeUndefined()
  expect(error.message).toBe('it was lost')
})
