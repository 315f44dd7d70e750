/** One server. */
export interface NatsNode {
  readonly name: string
  readonly port: number
  readonly pid: number | undefined
  readonly output: string
  start(): Promise<void>
  stop(): Promise<void>
  kill(): Promise<void>
  freeze(): void
  thaw(): void
}

/** A server, or a cluster. */
export interface NatsServers {
  readonly nodes: readonly [NatsNode, ...NatsNode[]]
  readonly folder: string
  readonly servers: string[]
  close(): Promise<void>
}

export function startNats(options?: {
  readonly nodes?: number
  readonly config?: string
  /** The folder for the files of the servers. */
  readonly folder?: string
  /** Further settings of its JetStream, such as `domain: hub`. */
  readonly jetstream?: string
}): Promise<NatsServers>
