import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { host } from '../listener.js'

/** Where the connections of a proxy come in. */
export interface Door {
  /** Known after the first opening, and kept. */
  readonly port: number
  readonly open: () => Promise<void>
  /** Refuses what comes from now on. What has come in stays; settles when the last of it is gone. */
  readonly shut: () => Promise<void>
}

// A port given up for a while may be taken meanwhile, by a client's own outgoing connection for one.
const reopenForMs = 5_000
const reopenEveryMs = 50

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

/** A door that is shut. Port 0 is any free one. */
export function createDoor(wantedPort: number, enter: (client: Socket) => void): Door {
  let port = wantedPort
  let hasBeenOpen = false
  let server: Server | undefined
  let opening: Promise<void> | undefined

  async function openAt(mine: Server): Promise<void> {
    for (const start = performance.now(); ; ) {
      try {
        await listen(mine, port)
        break
      } catch (error) {
        const isTaken = (error as NodeJS.ErrnoException).code === 'EADDRINUSE'
        if (!isTaken || !hasBeenOpen || performance.now() - start > reopenForMs) {
          if (server === mine) server = undefined
          throw error
        }
        await new Promise(resolve => setTimeout(resolve, reopenEveryMs))
        if (server !== mine) return
      }
    }
    // Shut while it was being opened.
    if (server !== mine) return void mine.close()
    port = (mine.address() as AddressInfo).port
    hasBeenOpen = true
  }

  return {
    get port() {
      return port
    },
    open() {
      if (server === undefined || opening === undefined) {
        server = createServer({ allowHalfOpen: true, noDelay: true }, enter)
        opening = openAt(server)
      }
      return opening
    },
    shut() {
      const closing = server
      server = undefined
      opening = undefined
      if (closing?.listening !== true) return Promise.resolve()
      return new Promise(resolve => closing.close(() => resolve()))
    },
  }
}
