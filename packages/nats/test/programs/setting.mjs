// What the programs of the chaos test have in common: their setting, a connection, and a file that outlives a SIGKILL.
import { openSync, writeSync } from 'node:fs'
import { connect } from '@nats-io/transport-node'

/** What the runner has said in the one argument. */
export const setting = JSON.parse(process.argv[2])

/** A connection that is never given up. */
export const connection = await connect({
  servers: setting.servers,
  maxReconnectAttempts: -1,
  reconnectTimeWait: 100,
  waitOnFirstConnect: true,
  timeout: 2000,
})

const file = openSync(setting.file, 'a')
/** Writes a line, which is in the file when this returns. */
export const note = line => void writeSync(file, `${line}\n`)

process.on('SIGTERM', () => process.exit(0))
