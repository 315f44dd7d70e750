// What the client program needs to know of sluice.
import { createClient, isStreamsError } from 'sluice'
import { fileCursors } from 'sluice/stores'

export { createClient, fileCursors }
export const isOwnError = error => isStreamsError(error)
export const events = ['connected', 'disconnected', 'reconnecting', 'gap', 'conflict', 'status']
export const reportsOf = stream => stream
