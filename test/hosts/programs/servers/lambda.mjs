// Stands in for Lambda's runtime: each request is an invocation of the handler of docs/records/hosts.md.
import { createServer } from 'node:http'
import { handler } from '../docs/lambda.mjs'
import { announce } from './announce.mjs'

const server = createServer(async (_request, response) => {
  const { statusCode, body } = await handler({})
  response.writeHead(statusCode).end(body)
})
server.listen(0, '127.0.0.1', () => announce(server.address().port))
