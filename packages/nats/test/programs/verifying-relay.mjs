// A relay in a process of its own, which is measured. It verifies with one curve library, or not at all.
import { connect } from '@nats-io/transport-node'
import { createRelay } from '@sluice/nats'

const { servers, feedIDs, config, verify } = JSON.parse(process.argv[2])
const relay = await createRelay({
  config: { ...config, ...(verify && { verify }), haMode: false },
  connection: await connect({ servers }),
  feedIDs,
  create: true,
})
process.stdout.write('open\n')
setInterval(() => {
  const { verification } = relay.stream.getMetrics()
  const library = verification?.curveLibrary ?? ''
  process.stdout.write(`${JSON.stringify({ ...relay.getMetrics(), library })}\n`)
}, 200)
