// Bare ws and JSON.parse.
import { openSockets } from './ws-nothing.mjs'

export const open = ({ take, ...options }) =>
  openSockets(options, data => take(JSON.parse(data).report))
