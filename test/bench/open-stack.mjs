// A client whose frames a bench hands over itself, as ws would.

/** Connects a stream of these feeds, of a client with these options. */
export async function openStack(createClient, options, ids, listener) {
  const wire = {}
  const client = createClient({
    endpoint: 'http://localhost',
    wsEndpoint: 'ws://localhost',
    ...options,
    connect(_target, events) {
      wire.events = events
      queueMicrotask(events.opened)
      const end = () => events.ended(1000)
      return Promise.resolve({ ping() {}, close: end, terminate: end })
    },
  })
  const stream = client.createStream(ids)
  stream.on('report', listener)
  stream.on('error', error => console.error(error))
  await stream.connect()
  return {
    receive: data => wire.events.message(data),
    accepted: () => stream.getMetrics().accepted,
    close: () => client.close(),
  }
}
