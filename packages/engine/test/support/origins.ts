import { afterEach } from '@jest/globals'
import {
  type DataEngine,
  type DataEngineOptions,
  type EngineOrigin,
  type PublishedReport,
  startDataEngine,
} from '../../index.js'
import { type Frame, type OpenStream, openStream, send, until } from './signed.js'

export const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'

export const path: '/api/v1/ws?feedIDs=0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782' = `/api/v1/ws?feedIDs=${ethUsd}`

export const open: OpenStream[] = []

afterEach(() => {
  for (const { socket } of open.splice(0)) socket.terminate()
})

/** It keeps the process alive, so that its servers, sockets and timers can be counted. */
export const quiet = (options: DataEngineOptions = {}): Promise<DataEngine> =>
  startDataEngine({
    ...{ feeds: [ethUsd], intervalMs: 0, history: 0, origins: 2, keepAlive: true },
    ...options,
  })

export const count = (kind: string): number =>
  process.getActiveResourcesInfo().filter(name => name.startsWith(kind)).length

/** The sockets and servers that other files have left in this process. */
export let foreign: number = count('TCP')

/** Waits until no more than they are left. */
export async function untilAlone(): Promise<void> {
  await until(() => count('TCP') <= foreign)
  foreign = count('TCP')
}

/** The endpoint of an origin itself. */
export const direct = (
  { apiKey, userSecret }: DataEngine,
  { wsEndpoint }: EngineOrigin,
): { apiKey: string; userSecret: string; wsEndpoint: string } => ({
  apiKey,
  userSecret,
  wsEndpoint,
})

/** A stream through the front door. */
export async function through(engine: DataEngine, id?: string): Promise<OpenStream> {
  const stream = await openStream(engine, path, { headers: { 'X-Cll-Origin': id } })
  open.push(stream)
  return stream
}

export async function directly(engine: DataEngine, origin: EngineOrigin): Promise<OpenStream> {
  const stream = await openStream(direct(engine, origin), path)
  open.push(stream)
  return stream
}

export const pair = ({ origins }: DataEngine): [EngineOrigin, EngineOrigin] =>
  origins as unknown as [EngineOrigin, EngineOrigin]

export const connections = ({ origins }: DataEngine): number[] =>
  origins.map(origin => origin.connections)

export const timeOf = (frame: Frame): number => frame.json.report.observationsTimestamp

export const publish = (engine: DataEngine, count: number): PublishedReport[] =>
  Array.from({ length: count }, () => engine.publish(ethUsd))

export const times = (reports: readonly PublishedReport[]): number[] =>
  reports.map(report => report.observationsTimestamp)

export const listedBy = async (engine: DataEngine): Promise<string | string[] | undefined> => {
  const { headers } = await send(engine, '/', { method: 'HEAD' })
  return headers['x-cll-available-origins']
}

/** Returns the frames so far, once a frame that no switch delays has come. */
export async function settled(engine: DataEngine, stream: OpenStream): Promise<Frame[]> {
  const mark = `mark ${stream.frames.length}`
  engine.send(mark)
  await until(() => stream.frames.at(-1)?.text === mark)
  return stream.frames.filter(({ json }) => json !== undefined)
}
