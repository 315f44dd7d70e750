const { startDataEngine } = require('@sluice/engine')

// Outside of jsdom, as a service is.
module.exports = async function start() {
  const engine = await startDataEngine({ intervalMs: 0 })
  globalThis.stopEngine = () => engine.close()
  const { endpoint, wsEndpoint, apiKey, userSecret, network } = engine
  process.env.ENGINE = JSON.stringify({ endpoint, wsEndpoint, apiKey, userSecret })
  process.env.SIGNERS = JSON.stringify(network)
}
