// Makes names resolve as a row says: what the system's resolver would answer is not in a test's hands.
import dns from 'node:dns'

const lookUp = dns.lookup
let rules = {}

/** For each host name: `addresses`, or the `code` it fails with, and `ms` until either. */
export function setNames(given) {
  rules = given
}

dns.lookup = function lookUpByRule(host, options, callback) {
  const rule = rules[host]
  if (rule === undefined) return lookUp(host, options, callback)
  const { addresses = [], code, ms = 0 } = rule
  const found = addresses.map(address => ({ address, family: address.includes(':') ? 6 : 4 }))
  setTimeout(() => {
    if (code !== undefined) {
      const error = new Error(`getaddrinfo ${code} ${host}`)
      callback(Object.assign(error, { code, syscall: 'getaddrinfo', hostname: host }))
    } else if (options.all) callback(null, found)
    else callback(null, found[0].address, found[0].family)
  }, ms)
}
