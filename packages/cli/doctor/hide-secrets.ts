import type { Subject } from './context.js'

/** Shorter ones are in many texts by chance. */
const LEAST = 4
const HIDDEN = '…'

/** Makes a function that removes secrets, and the user names and passwords of URLs, from a text, and what terminals obey. */
export function createHider({ credentials, network, env }: Subject): (text: string) => string {
  const variables = Object.entries(env).filter(([name]) => /_proxy$/i.test(name))
  const secrets = [
    credentials?.apiKey,
    credentials?.userSecret,
    network.tls?.passphrase,
    ...variables.flatMap(([, url]) => partsOf(url ?? '')),
  ]
  const hidden = secrets
    .filter(secret => secret !== undefined)
    .filter(secret => secret.length >= LEAST)
    .sort((one, other) => other.length - one.length)
  return function hide(text) {
    const clean = text.replace(/\/\/[^/\s@]*@/g, `//${HIDDEN}@`).replace(/[\p{Cc}]+/gu, ' ')
    return hidden.reduce((left, secret) => left.replaceAll(secret, HIDDEN), clean)
  }
}

/** The password of a URL, as it is written and as it is meant. The URL may be none. */
function partsOf(url: string): readonly string[] {
  const [, password] = /^[^@]*:([^:@]*)@/.exec(url) ?? []
  if (password === undefined) return []
  try {
    return [password, decodeURIComponent(password)]
  } catch {
    return [password]
  }
}
