import { describe, expect, test } from '@jest/globals'
import { ValidationError } from 'sluice/core'
import type { CapabilityCall, CapabilityReply } from '../capability.js'
import { ConfidentialHTTPClient } from '../client.js'
import { TYPE_NAMES } from '../request/message.js'
import { normalizeRequest } from '../request/normalize-request.js'

const input = { request: { url: 'https://api.example/v1', method: 'get' } }
const response = {
  $typeName: TYPE_NAMES.HTTPResponse,
  statusCode: 200,
  body: new Uint8Array([1]),
  multiHeaders: {},
}
const client = new ConfidentialHTTPClient()

/** A runtime that notes what it is called with, and has nothing besides. */
function runtimeOf(reply: unknown): {
  readonly runtime: { callCapability(call: CapabilityCall): CapabilityReply }
  readonly calls: CapabilityCall[]
} {
  const calls: CapabilityCall[] = []
  const callCapability = (call: CapabilityCall): unknown => {
    calls.push(call)
    return reply
  }
  const runtime = new Proxy(
    { callCapability },
    {
      get(target, name) {
        if (name === 'callCapability') return target.callCapability
        throw new Error(`${String(name)} was read`)
      },
    },
  )
  return { runtime: runtime as never, calls }
}

function thrownBy(work: () => unknown): unknown {
  try {
    work()
  } catch (error) {
    return error
  }
  throw new Error('nothing was thrown')
}

describe('sendRequest', () => {
  test('calls the capability at once, with the request in its normal form and nothing more', () => {
    const { runtime, calls } = runtimeOf({ result: () => response })
    client.sendRequest(runtime, input)
    expect(calls).toStrictEqual([
      {
        capabilityId: 'confidential-http@1.0.0-alpha',
        method: 'SendRequest',
        payload: normalizeRequest(input),
      },
    ])
  })

  test('passes schemas on untouched', async () => {
    const inputSchema = { kind: 'message' }
    const outputSchema = Symbol('schema')
    const { runtime, calls } = runtimeOf({ result: () => response })
    const knowing = new ConfidentialHTTPClient({ inputSchema, outputSchema })
    knowing.sendRequest(runtime, input)
    await knowing.sendRequestAsync(runtime, input)
    for (const call of calls) {
      expect(call.inputSchema).toBe(inputSchema)
      expect(call.outputSchema).toBe(outputSchema)
    }
    expect(calls).toHaveLength(2)
  })

  test('calls callCapability on its runtime, and the reply’s methods on the reply', async () => {
    const reply = {
      response,
      result() {
        return this.response
      },
      async resultAsync() {
        return this.response
      },
    }
    const runtime = {
      reply,
      callCapability() {
        return this.reply
      },
    }
    expect(client.sendRequest(runtime, input).result()).toBe(response)
    expect(await client.sendRequestAsync(runtime, input)).toBe(response)
  })

  test('result() asks the runtime once, and gives the same response each time', () => {
    let asked = 0
    const { runtime } = runtimeOf({
      result() {
        asked++
        return { statusCode: 201, body: 'aGk=' }
      },
    })
    const sent = client.sendRequest(runtime, input)
    expect(asked).toBe(0)
    const first = sent.result()
    expect(first).toMatchObject({ statusCode: 201, body: new Uint8Array([104, 105]) })
    expect(sent.result()).toBe(first)
    expect(asked).toBe(1)
  })

  test('result() throws the same error each time', () => {
    let asked = 0
    const { runtime } = runtimeOf({
      result() {
        asked++
        throw new Error('no enclave')
      },
    })
    const { result } = client.sendRequest(runtime, input)
    const error = thrownBy(result)
    expect(error).toMatchObject({ message: 'no enclave' })
    expect(thrownBy(result)).toBe(error)
    expect(asked).toBe(1)
  })

  test.each([
    ['a promise', async () => response],
    ['one that rejects', () => Promise.reject(new Error('late'))],
  ])('result() says what to do where the runtime gives %s', (_, result) => {
    const { runtime } = runtimeOf({ result })
    expect(() => client.sendRequest(runtime, input).result()).toThrow(
      new ValidationError('this runtime answers with a promise: use sendRequestAsync'),
    )
  })

  test('a request that breaks a rule never reaches the runtime', async () => {
    const { runtime, calls } = runtimeOf({ result: () => response })
    const bad = { request: { url: 'https://api.example' } }
    const complaint = new ValidationError('request.method is required')
    expect(() => client.sendRequest(runtime, bad)).toThrow(complaint)
    await expect(client.sendRequestAsync(runtime, bad)).rejects.toThrow(complaint)
    expect(calls).toEqual([])
  })

  test('what callCapability throws comes from sendRequest', () => {
    const runtime = {
      callCapability(): never {
        throw new Error('not found')
      },
    }
    expect(() => client.sendRequest(runtime, input)).toThrow('not found')
  })

  test.each([undefined, null, {}, 7])('%p is no runtime', async runtime => {
    const complaint = /^runtime must have a function callCapability/
    expect(() => client.sendRequest(runtime as never, input)).toThrow(complaint)
    expect(() => client.sendRequest(runtime as never, input)).toThrow(ValidationError)
    await expect(client.sendRequestAsync(runtime as never, input)).rejects.toThrow(complaint)
  })

  test.each([undefined, {}, Promise.resolve()])('a reply must not be %p', reply => {
    expect(() => client.sendRequest(runtimeOf(reply).runtime, input)).toThrow(
      new ValidationError('runtime.callCapability must return an object with result()'),
    )
  })

  test('what the runtime gives must be a response', () => {
    const { runtime } = runtimeOf({ result: () => ({ statusCode: -1 }) })
    expect(() => client.sendRequest(runtime, input).result()).toThrow(/^response.statusCode must/)
  })
})

describe('sendRequestAsync', () => {
  test('takes resultAsync where the runtime has it', async () => {
    const result = (): never => {
      throw new Error('blocked')
    }
    const { runtime } = runtimeOf({ result, resultAsync: async () => response })
    expect(await client.sendRequestAsync(runtime, input)).toBe(response)
  })

  test.each([
    ['a response', response],
    ['a promise of one', Promise.resolve(response)],
  ])('else takes result(), be it %s', async (_, result) => {
    const { runtime } = runtimeOf({ result: () => result })
    expect(await client.sendRequestAsync(runtime, input)).toBe(response)
  })

  test('rejects with what the runtime rejects with', async () => {
    const error = new Error('no enclave')
    const { runtime } = runtimeOf({ result: () => Promise.reject(error) })
    await expect(client.sendRequestAsync(runtime, input)).rejects.toBe(error)
  })

  test('passes the signal on, and does not wait for a runtime that ignores it', async () => {
    const controller = new AbortController()
    const { runtime, calls } = runtimeOf({ result: () => new Promise(() => undefined) })
    const sent = client.sendRequestAsync(runtime, input, { signal: controller.signal })
    expect(calls[0]?.signal).toBe(controller.signal)
    const reason = new Error('enough')
    controller.abort(reason)
    await expect(sent).rejects.toBe(reason)
  })

  test('does not call with a signal that has aborted', async () => {
    const { runtime, calls } = runtimeOf({ result: () => response })
    const reason = new Error('enough')
    const signal = AbortSignal.abort(reason)
    await expect(client.sendRequestAsync(runtime, input, { signal })).rejects.toBe(reason)
    expect(calls).toEqual([])
  })

  test('takes no controller for a signal', async () => {
    const { runtime } = runtimeOf({ result: () => response })
    const signal = new AbortController() as never
    await expect(client.sendRequestAsync(runtime, input, { signal })).rejects.toThrow(
      'options.signal must be an AbortSignal: give the signal of the controller',
    )
  })
})
