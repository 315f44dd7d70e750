// How long a report takes from the moment its bytes were read from the socket to its handler. The same hook for every side: it
// notes the time before anything of the platform, of ws or of a client sees the bytes, so the kernel is not in the figure.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { performance } from 'node:perf_hooks'

/** The bytes of a frame before its message. */
const HEAD = 4
/** Bytes that a peer may have sent beside frames of reports, such as pongs. */
const SLACK = 256

/** Notes each read of a socket: how many bytes had come by then, and when. */
function watch(socket) {
  const reads = { bytes: [], at: [] }
  socket.once('connect', () => {
    // The callback of the platform's own socket: it is called for each read, whoever gets the bytes.
    const handle = socket._handle
    const { onread } = handle
    handle.onread = function noteRead(...args) {
      reads.at.push(performance.now())
      reads.bytes.push(handle.bytesRead)
      return Reflect.apply(onread, this, args)
    }
  })
  return reads
}

const bytesOf = ({ bytes }) => bytes.at(-1) ?? 0

/**
 * Watches the sockets that are opened from now on. One of them has to bring all reports, each in a frame of the same length and
 * in order, so that the number of a report says which read brought the end of it: a handler that is called later, when more
 * has been read, counts from its own read all the same.
 */
export function watchSockets() {
  const sockets = []
  const opened = ({ socket }) => sockets.push(watch(socket))
  subscribe('net.client.socket', opened)
  const delays = []
  let stream
  let frameLength
  let handled = 0
  let next = 0

  function find(report) {
    stream = sockets.reduce((most, each) => (bytesOf(each) > bytesOf(most) ? each : most))
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = report
    const sent = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
    frameLength = HEAD + JSON.stringify({ report: sent }).length
  }

  return {
    /** A handler was called with the next report. */
    handled(report) {
      const now = performance.now()
      if (stream === undefined) find(report)
      handled++
      // The first read is that of the handshake.
      const end = stream.bytes[0] + handled * frameLength - SLACK
      while (stream.bytes[next] < end) next++
      delays.push(now - stream.at[next])
    },
    /** Microseconds in which half of the reports were handled, and 99 of 100, but for the first so many of them. */
    percentiles(skip) {
      const sorted = delays
        .slice(skip)
        .map(ms => 1000 * ms)
        .sort((one, other) => one - other)
      const at = share => sorted[Math.floor(share * (sorted.length - 1))]
      return { p50: at(0.5), p99: at(0.99) }
    },
    stop: () => unsubscribe('net.client.socket', opened),
  }
}
