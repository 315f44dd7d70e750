export { createGateway, type Gateway, type GatewayMetrics } from './gateway.js'
export type { GatewayLimits, GatewayOptions, GatewayTLS } from './options.js'
export type { GatewayToken, GatewayTokens } from './tokens.js'
