import { once } from 'node:events'
import { isIP } from 'node:net'
import { connect, type PeerCertificate, type TLSSocket } from 'node:tls'
import type { Target } from 'sluice/internal'
import { type Check, exitCodes, type Finding, failed, ok, warning } from '../check.js'
import { type Context, nameOf } from '../context.js'

/** A day in milliseconds. */
const DAY = 86_400_000
/** A certificate that expires in fewer days than this is a warning. */
const SOON = 14

/** Checks whether the certificates of the service are trusted, and when they expire. */
export const tls: Check = {
  name: 'tls',
  needs: ['connection'],
  exitCode: exitCodes.service,
  async run(context, signal) {
    const findings = await Promise.all(
      context.targets.map(target =>
        target.isSecure ? inspect(context, target, signal) : Promise.resolve(withoutTLS(target)),
      ),
    )
    return [...findings, ...unverified(context)]
  },
}

function withoutTLS(target: Target): Finding {
  const { host } = target
  const name = nameOf(target)
  if (host === 'localhost' || host === '::1' || host.startsWith('127.'))
    return ok(`${name} is on this machine, without TLS`)
  return warning(
    `${name} is reached without TLS`,
    'give https:// and wss:// in REST_URL and WS_URL',
  )
}

/**
 * Warns if `NODE_TLS_REJECT_UNAUTHORIZED` turns off the check of certificates. Node.js obeys this
 * variable only without `proxy` and `tls`.
 */
function unverified({ subject: { env, network } }: Context): readonly Finding[] {
  if (env.NODE_TLS_REJECT_UNAUTHORIZED !== '0' || Object.keys(network).length > 0) return []
  const what = 'NODE_TLS_REJECT_UNAUTHORIZED is 0: Node trusts any certificate'
  return [warning(what, 'remove it, and give the authority with --ca')]
}

async function inspect(context: Context, target: Target, signal: AbortSignal): Promise<Finding> {
  const { socket, servername } = await shakeHands(context, target, signal)
  try {
    const chain = chainOf(socket.getPeerCertificate(true))
    const ends = chain.map(each => Date.parse(each.valid_to))
    const [leaf] = chain
    const expiresAt = Math.min(...ends)
    const by = chain.map(each => each.subject?.CN ?? 'someone without a name').join(', by ')
    const day = new Date(expiresAt).toISOString().slice(0, 10)
    const days = Math.floor((expiresAt - Date.now()) / DAY)
    const protocol = socket.getProtocol() ?? 'TLS'
    const name = nameOf(target)
    const facts = { target: name, protocol, expires: new Date(expiresAt).toISOString(), days }
    if (!socket.authorized) {
      const code = String(socket.authorizationError)
      const [rule, advice] = distrustOf(code, day, leaf?.subjectaltname ?? '', servername)
      return failed(`${name}: certificate of ${by} ${rule}`, advice, facts)
    }
    const text = `${name}: ${protocol}, certificate of ${by}, until ${day}, ${days} days`
    if (days >= SOON) return ok(text, facts)
    return warning(text, 'who runs the service must renew it', facts)
  } finally {
    socket.destroy()
  }
}

/**
 * Opens a TLS connection that accepts any certificate, so that the check can inspect it. Sends no
 * request.
 */
async function shakeHands(
  context: Context,
  target: Target,
  signal: AbortSignal,
): Promise<{ readonly socket: TLSSocket; readonly servername: string }> {
  const { ca, cert, key, passphrase, servername: given } = context.subject.network.tls ?? {}
  const servername = given ?? target.host
  const way = await context.open(target, signal)
  const socket = connect({
    socket: way,
    host: servername,
    servername: isIP(servername) === 0 ? servername : '',
    rejectUnauthorized: false,
    ALPNProtocols: ['http/1.1'],
    ...(ca === undefined ? {} : { ca: ca as never }),
    ...(cert === undefined ? {} : { cert: cert as never }),
    ...(key === undefined ? {} : { key: key as never }),
    ...(passphrase === undefined ? {} : { passphrase }),
  })
  try {
    await once(socket, 'secureConnect', { signal })
  } catch (thrown) {
    socket.destroy()
    throw thrown
  }
  return { socket, servername }
}

/** The certificate and its issuers, up to the root or to the last known issuer. */
function chainOf(
  leaf: PeerCertificate & { issuerCertificate?: unknown },
): readonly PeerCertificate[] {
  const chain: PeerCertificate[] = []
  let next: unknown = leaf
  while (next !== undefined && !chain.includes(next as PeerCertificate) && chain.length < 10) {
    chain.push(next as PeerCertificate)
    next = (next as { issuerCertificate?: unknown }).issuerCertificate
  }
  return chain
}

/** Why a certificate is not trusted, and how the user can fix it. */
function distrustOf(
  code: string,
  day: string,
  names: string,
  wanted: string,
): readonly [rule: string, advice: string] {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return [
        `has expired on ${day}`,
        'who runs the service must renew it; if the date of this machine is wrong, set it',
      ]
    case 'CERT_NOT_YET_VALID':
      return ['is not valid yet', 'set the date of this machine']
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return [`is for ${names}, not for ${wanted}`, 'check the host in REST_URL and WS_URL']
    default:
      return [
        `is not trusted: ${code}`,
        'give the certificate of the authority that signed it with --ca FILE; a proxy that looks into TLS has one of its own',
      ]
  }
}
