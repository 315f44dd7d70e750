/** A Kafka of the tests. */
export interface KafkaServer {
  /** The listener without TLS and SASL. */
  readonly plain: string
  /** The listener with TLS. */
  readonly tls: string
  /** The listener with SASL PLAIN. */
  readonly sasl: string
  /** The port of a listener that tells clients to connect to the port `proxy`. */
  readonly lossy: number
  /** A free port, on which a test serves a proxy to `lossy`. */
  readonly proxy: number
  /** The passwords of the users `admin`, who may do all, and `reader`, who may do nothing. */
  readonly passwords: { readonly admin: string; readonly reader: string }
  /** The certificate of the listener with TLS. */
  readonly certificate: string
  /** What the broker has written lately. */
  readonly output: string
  signal(signal: 'SIGSTOP' | 'SIGCONT'): void
  stop(signal: 'SIGTERM' | 'SIGKILL'): Promise<void>
  /** Starts it again, on the same ports. */
  start(): Promise<void>
  /** The arguments of `java` for a tool of Kafka. */
  tool(...args: string[]): string[]
  close(): Promise<void>
}

export function startKafka(libraries?: string): Promise<KafkaServer>
