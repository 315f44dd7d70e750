// What the client program needs to know of the official SDK.
import { createClient, DataStreamsError } from '@chainlink/data-streams-sdk'

export { createClient }
export const isOwnError = error => error instanceof DataStreamsError
export const events = ['connected', 'disconnected', 'reconnecting']

/** It has no iteration, but reads one by one. */
export async function* reportsOf(stream) {
  await stream.connect()
  for (;;) yield await stream.read()
}
