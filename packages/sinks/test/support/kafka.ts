// A broker for the tests of a file, and what Kafka's own console consumer reads from it.
import { spawn } from 'node:child_process'
import { afterAll, beforeAll } from '@jest/globals'
import { Admin } from '@platformatic/kafka'
import { kafka } from '@sluice/sinks/kafka'
import type { SinkOpening, SinkStore } from 'sluice/plugins/sink'
import { type KafkaServer, startKafka } from './kafka-server.mjs'

/** What a sink gives a store that it opens. */
export const opening: SinkOpening = { log: {}, signal: new AbortController().signal }

/** A message as the console consumer prints it. */
export interface Consumed {
  readonly partition: number
  readonly key: string
  readonly headers: Readonly<Record<string, string>>
  readonly value: Readonly<Record<string, unknown>>
}

const separator = '\u0001'

function parseLine(line: string): Consumed {
  const [partition = '', headers = '', key = '', value = ''] = line.split(separator)
  const pairs = headers.split(',').map(pair => {
    const at = pair.indexOf(':')
    return [pair.slice(0, at), pair.slice(at + 1)] as const
  })
  return {
    partition: Number(partition.replace('Partition:', '')),
    key,
    headers: Object.fromEntries(pairs),
    value: JSON.parse(value),
  }
}

/** How many messages the broker says that a topic has. */
async function sizeOf(server: KafkaServer, topic: string): Promise<number> {
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: [server.plain] })
  try {
    const { topics } = await admin.metadata({ topics: [topic] })
    const count = topics.get(topic)?.partitionsCount ?? 0
    // The newest offset is -1 in the protocol.
    const partitions = Array.from({ length: count }, (_, partitionIndex) => ({
      partitionIndex,
      timestamp: -1n,
    }))
    const [listed] = await admin.listOffsets({ topics: [{ name: topic, partitions }] })
    return (listed?.partitions ?? []).reduce((sum, { offset }) => sum + Number(offset), 0)
  } finally {
    await admin.close()
  }
}

/** Reads a topic from its beginning by the console consumer of Kafka, a program of others. */
export async function consume(server: KafkaServer, topic: string): Promise<readonly Consumed[]> {
  const size = await sizeOf(server, topic)
  if (size === 0) return []
  const shown = ['partition', 'headers', 'key', 'value'].map(name => `print.${name}=true`)
  const properties = [...shown, `key.separator=${separator}`].flatMap(each => ['--property', each])
  const range = ['--from-beginning', '--max-messages', String(size), '--timeout-ms', '20000']
  const args = ['--bootstrap-server', server.plain, '--topic', topic, ...range, ...properties]
  const tool = 'org.apache.kafka.tools.consumer.ConsoleConsumer'
  const child = spawn('java', server.tool(tool, ...args), { stdio: ['ignore', 'pipe', 'pipe'] })
  const chunks: Buffer[] = []
  let errors = ''
  child.stdout.on('data', (chunk: Buffer) => void chunks.push(chunk))
  child.stderr.on('data', chunk => {
    errors += chunk
  })
  await new Promise(resolve => child.once('close', resolve))
  const lines = Buffer.concat(chunks)
    .toString()
    .split('\n')
    .filter(line => line.startsWith('Partition:'))
  if (lines.length !== size) throw new Error(`${lines.length} of ${size} messages: ${errors}`)
  return lines.map(parseLine)
}

/** A broker for the tests of a file. */
export function useKafka(): {
  readonly server: KafkaServer
  /** The name of a topic that no test has used. */
  topic(): string
  /** Opens a store, and closes it at the end of the file. */
  open(...options: Parameters<typeof kafka>): Promise<SinkStore>
} {
  let server: KafkaServer | undefined
  let count = 0
  const stores: SinkStore[] = []
  beforeAll(async () => {
    server = await startKafka(process.env.KAFKA_LIBRARIES)
  })
  afterAll(async () => {
    for (const store of stores) await store.close()
    await server?.close()
  })
  return {
    get server() {
      if (server === undefined) throw new Error('the broker has not been started')
      return server
    },
    topic: () => `reports.${++count}`,
    async open(options) {
      const store = kafka(options)
      stores.push(store)
      await store.open(opening)
      return store
    },
  }
}
