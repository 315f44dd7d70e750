import type { ConnectionOptions } from 'node:tls'
import zlib from 'node:zlib'
import {
  checkObject,
  checkText,
  kindOf,
  number,
  oneOf,
  optional,
  type Rule,
  readOptions,
  type Schema,
  ValidationError,
  withDefault,
} from 'sluice/core'

/** A secret, or a function that fetches it for each connection. */
export type KafkaSecret = string | (() => string | Promise<string>)

/** How the sink logs in. */
export interface KafkaLogin {
  /** The mechanism of SASL. */
  readonly mechanism: 'PLAIN' | 'SCRAM-SHA-256' | 'SCRAM-SHA-512' | 'OAUTHBEARER'
  /** The user, for PLAIN and SCRAM. */
  readonly username?: KafkaSecret
  /** The password of the user. */
  readonly password?: KafkaSecret
  /** The token, for OAUTHBEARER. */
  readonly token?: KafkaSecret
}

/** How a topic is made that does not exist. */
export interface KafkaTopicSettings {
  /** How many partitions it has. @default what the brokers are set to */
  readonly partitions?: number
  /** How many brokers each hold a copy of it. @default what the brokers are set to */
  readonly replicas?: number
}

/** What a store of Kafka writes to, and how. */
export interface KafkaOptions {
  /** The brokers to begin with: `HOST:PORT`, several separated by commas, or a list. */
  readonly brokers: string | readonly string[]
  /** The topic of reports. */
  readonly topic: string
  /** The topic of candles. Without it, candles are not stored. */
  readonly candleTopic?: string
  /** The name of the sink in the brokers' logs and quotas. @default 'sluice' */
  readonly clientId?: string
  /** Whether connections are encrypted: true, or the options of Node's `tls.connect`. */
  readonly tls?: boolean | ConnectionOptions
  /** How the sink logs in. @default no login */
  readonly sasl?: KafkaLogin
  /** How batches are compressed. `zstd` needs Node 22.15 or later. @default 'none' */
  readonly compression?: 'none' | 'gzip' | 'snappy' | 'lz4' | 'zstd'
  /** Whether topics that do not exist are made: true, or their settings. @default false */
  readonly create?: boolean | KafkaTopicSettings
  /**
   * Milliseconds that a request may take, with the repetitions of the library. After that the
   * connections are closed, and the write is repeated. @default 30_000
   */
  readonly timeout?: number
}

const secret: Rule<KafkaSecret | undefined> = (field, value) =>
  value === undefined || typeof value === 'function'
    ? (value as KafkaSecret | undefined)
    : checkText(field, value)

const loginRules = {
  mechanism: oneOf('PLAIN', 'SCRAM-SHA-256', 'SCRAM-SHA-512', 'OAUTHBEARER'),
  username: secret,
  password: secret,
  token: secret,
} satisfies Schema<KafkaLogin>

const topicRules = {
  partitions: optional(number({ min: 1, whole: true })),
  replicas: optional(number({ min: 1, max: 32_767, whole: true })),
} satisfies Schema<KafkaTopicSettings>

const rules = {
  brokers: checkBrokers,
  topic: checkTopic,
  candleTopic: optional(checkTopic),
  clientId: withDefault('sluice', checkText),
  tls: checkTLS,
  sasl: checkLogin,
  compression: withDefault('none', oneOf('none', 'gzip', 'snappy', 'lz4', 'zstd')),
  create: checkCreate,
  timeout: withDefault(30_000, number({ min: 1, max: 3_600_000 })),
} satisfies Schema<KafkaOptions>

/** The checked options. */
export interface Settings {
  readonly brokers: readonly string[]
  readonly topic: string
  readonly candleTopic?: string
  readonly clientId: string
  readonly tls?: ConnectionOptions
  readonly sasl?: KafkaLogin
  readonly compression: NonNullable<KafkaOptions['compression']>
  readonly create?: KafkaTopicSettings
  readonly timeout: number
  /** The topics that must exist. */
  readonly topics: readonly string[]
}

/** Checks the options of `kafka`. */
export function readSettings(options: KafkaOptions): Settings {
  const checked = readOptions('kafka', options, rules)
  const { topic, candleTopic } = checked
  if (checked.compression === 'zstd' && !('zstdCompressSync' in zlib))
    throw new ValidationError('compression zstd needs Node 22.15 or later')
  return { ...checked, topics: candleTopic === undefined ? [topic] : [topic, candleTopic] }
}

function checkBrokers(field: string, value: unknown): readonly string[] {
  const list = typeof value === 'string' ? value.split(',').map(each => each.trim()) : value
  if (!Array.isArray(list))
    throw new ValidationError(`${field} must be HOST:PORT or a list of them, not ${kindOf(value)}`)
  // Not shown: it may be a URL with a password.
  const isBroker = (each: unknown) => /^(\[[\da-f:]+\]|[\w.-]+):\d+$/i.test(String(each))
  if (list.length > 0 && list.every(isBroker)) return list
  throw new ValidationError(`${field} must be HOST:PORT, several separated by commas, or a list`)
}

function checkTopic(field: string, value: unknown): string {
  const topic = checkText(field, value)
  if (/^[\w.-]{1,249}$/.test(topic) && !/^\.{1,2}$/.test(topic)) return topic
  throw new ValidationError(
    `${field} must be at most 249 letters, digits, “.”, “_” and “-”, not ${JSON.stringify(topic.slice(0, 80))}`,
  )
}

function checkTLS(field: string, value: unknown): ConnectionOptions | undefined {
  if (value === undefined || value === false) return undefined
  return value === true ? {} : checkObject(field, value as ConnectionOptions)
}

function checkLogin(field: string, value: unknown): KafkaLogin | undefined {
  if (value === undefined) return undefined
  const login = readOptions('sasl', checkObject(field, value as KafkaLogin), loginRules, 'sasl.')
  const needed = login.mechanism === 'OAUTHBEARER' ? ['token'] : ['username', 'password']
  for (const name of needed)
    if (!(name in login)) throw new ValidationError(`sasl.${name} is required`)
  return login
}

function checkCreate(field: string, value: unknown): KafkaTopicSettings | undefined {
  if (value === undefined || value === false) return undefined
  if (value === true) return {}
  return readOptions(field, checkObject(field, value as object), topicRules, 'create.')
}
