// The store of Kafka without a broker: its options, its name, and the package that may be missing.
import { inspect } from 'node:util'
import { expect, jest, test } from '@jest/globals'
import { type KafkaOptions, kafka } from '@sluice/sinks/kafka'
import { ValidationError } from 'sluice/core'

jest.mock('@platformatic/kafka', () => {
  throw new Error("Cannot find package '@platformatic/kafka'")
})

const PASSWORD = 'hunter22'
const options: KafkaOptions = {
  brokers: 'one.example:9092, two.example:9093,[::1]:9092',
  topic: 'reports',
  sasl: { mechanism: 'PLAIN', username: 'sluice', password: PASSWORD },
}

test('the name has brokers and topics, and nothing else', () => {
  const brokers = 'one.example:9092,two.example:9093,[::1]:9092'
  expect(kafka(options).name).toBe(`kafka ${brokers}/reports`)
  const list = kafka({ ...options, brokers: brokers.split(','), candleTopic: 'candles' })
  expect(list.name).toBe(`kafka ${brokers}/reports,candles`)
  expect(inspect(list, { depth: 9, showHidden: true })).not.toContain(PASSWORD)
  expect(JSON.stringify(list)).not.toContain(PASSWORD)
})

test.each([
  [{ brokers: 7 }, 'brokers must be HOST:PORT or a list of them, not number'],
  [{ brokers: [] }, 'brokers must be HOST:PORT, several separated by commas, or a list'],
  [{ brokers: `kafka://u:${PASSWORD}@h:9092` }, 'brokers must be HOST:PORT, several'],
  [{ brokers: 'h' }, 'brokers must be HOST:PORT, several'],
  [{ topic: undefined }, 'topic is required'],
  [{ topic: 'a b' }, 'topic must be at most 249 letters'],
  [{ candleTopic: '..' }, 'candleTopic must be at most 249 letters'],
  [{ compression: 'brotli' }, "compression must be 'none', 'gzip', 'snappy', 'lz4' or 'zstd'"],
  [{ tls: 7 }, 'tls must be an object, not number'],
  [{ sasl: { mechanism: 'GSSAPI' } }, "sasl.mechanism must be 'PLAIN'"],
  [{ sasl: { mechanism: 'PLAIN', username: 'u' } }, 'sasl.password is required'],
  [{ sasl: { mechanism: 'OAUTHBEARER' } }, 'sasl.token is required'],
  [{ sasl: { mechanism: 'PLAIN', user: 'u' } }, "unknown option 'user' of sasl"],
  [{ create: { partitions: 0 } }, 'create.partitions must be at least 1'],
  [{ create: 'yes' }, 'create must be an object'],
  [{ timeout: 0 }, 'timeout must be at least 1'],
  [{ broker: 'h:1' }, "unknown option 'broker' of kafka; did you mean 'brokers'?"],
])('the options %p are refused', (changes, message) => {
  let error: unknown
  try {
    kafka({ ...options, ...changes } as KafkaOptions)
  } catch (thrown) {
    error = thrown
  }
  expect(error).toBeInstanceOf(ValidationError)
  expect((error as Error).message).toContain(message)
  expect(inspect(error, { depth: 9 })).not.toContain(PASSWORD)
})

test('without the package, the error says what to install', async () => {
  const store = kafka(options)
  const opened = store.open({ log: {}, signal: new AbortController().signal })
  await expect(opened).rejects.toBeInstanceOf(ValidationError)
  await expect(opened).rejects.toThrow('npm install @platformatic/kafka')
  await store.close()
})
