// Loaded before the tests of `npm run test:library`: one that listens or connects is not of these.
const { Server, Socket } = require('node:net')

function refuse() {
  throw new Error(
    'a test of test:library opens a socket: test/run-library.mjs says where it belongs',
  )
}
Server.prototype.listen = refuse
Socket.prototype.connect = refuse
