// A gateway in a process of its own, which is measured.
import { connect } from '@nats-io/transport-node'
import { createGateway } from '@sluice/nats/gateway'

const { servers, sha256 } = JSON.parse(process.argv[2])
const { wsURL } = await createGateway({
  connection: await connect({ servers }),
  tokens: { page: { sha256 } },
  limits: { bufferedBytes: 67_108_864 },
})
process.stdout.write(wsURL)
