import { type Finding, notChecked, ok } from '../../doctor/check.js'
import { type CertifyCheck, defineCheck, UNREACHABLE } from '../check.js'
import { feedIDsIn } from '../context.js'
import { deviation, noted } from '../finding.js'
import { StreamWatch } from '../stream-watch.js'

/** Milliseconds within which a signature's time is accepted. */
const ALLOWED = 5000

/**
 * Finds whether the service answers and accepts the credentials, and which feeds there are. If this
 * machine's clock is refused, all that follows is signed by the service's clock.
 */
export const access: CertifyCheck = defineCheck({
  name: 'access',
  title: 'The credentials are accepted',
  documented: 'GET /api/v1/feeds with the three headers of the signature is answered 200',
  source: 'authentication page; the path is in the official SDKs',
  requests: 2,
  async run(context) {
    const { probe } = context
    let answer = await probe.ask('/api/v1/feeds')
    const clock = probe.dates.read()
    if (answer.status === 401 && clock !== undefined && Math.abs(clock.offset) > ALLOWED / 2) {
      probe.offset = clock.offset
      answer = await probe.ask('/api/v1/feeds')
    }
    const { status } = answer
    if (status === 401 || status === 403)
      return [{ ...notChecked(`the key or the secret is refused: ${status}`), exitCode: 3 }]
    if (status !== 200)
      return [{ ...notChecked(`the list of feeds is answered ${status}`), exitCode: UNREACHABLE }]
    context.feedList = answer
    context.chooseFeeds(feedIDsIn(answer) ?? [])
    const refused = await context.leaveOutRefused()
    const count = context.feedIDs.length
    if (count === 0)
      return [{ ...notChecked('no feed is listed or named that the key may read'), exitCode: 3 }]
    // The watch takes longest, so it begins before the other checks.
    void StreamWatch.of(context)
    const found = ok(`200, ${count} feeds are watched`)
    if (refused.length === 0) return [found]
    return [found, noted(`not watched, as the key may not read them: ${refused.join(', ')}`)]
  },
  needs: [],
})

/** Compares the service's dates with this machine's clock and with the times of reports. */
export const clock: CertifyCheck = defineCheck({
  name: 'clock',
  title: 'The clock of the service agrees with this machine’s',
  documented:
    'Signatures are accepted within 5 s of the service’s clock, which is in the Date of its answers',
  source: 'authentication page; Date is of HTTP',
  async run(context) {
    const { probe } = context
    await context.latest()
    const reading = probe.dates.read()
    if (reading === undefined) return [deviation(`none of ${probe.answers} answers has a Date`)]
    const { offset, error } = reading
    const facts = { offsetMs: offset, errorMs: Math.round(error) }
    const seconds = `${(offset / 1000).toFixed(1)} s ± ${(error / 1000).toFixed(1)} s`
    const text = `the service’s Date minus this machine’s clock: ${seconds}`
    const missing = probe.withoutDate
    const rest = missing > 0 ? [deviation(`${missing} of ${probe.answers} have no Date`)] : []
    if (Math.abs(offset) - error <= ALLOWED) return [ok(text, facts), ...rest]
    const witness =
      probe.offset === 0
        ? 'signatures by this machine’s clock are accepted, so the Date is wrong'
        : 'only signatures by the Date are accepted; either clock may be wrong'
    return [deviation(`${text}; ${witness}`, facts), ...rest]
  },
})

/** Milliseconds by which signatures are off: inside of what is allowed, and outside. */
const INSIDE = 3000
const OUTSIDE = 8000
/** An answer that takes longer shows nothing: its request may have come that much later. */
const PROMPT = 1000

/** Finds within which time of its clock the service accepts signatures. */
export const timeTolerance: CertifyCheck = defineCheck({
  name: 'time-tolerance',
  title: 'The time of a signature may be 5 s off',
  documented: 'A time more than 5 s from the service’s clock is answered 401, by default',
  source: 'authentication page',
  requests: 4,
  async run({ probe }) {
    const findings: Finding[] = []
    for (const shift of [-OUTSIDE, -INSIDE, INSIDE, OUTSIDE]) {
      // Clocks that differ a little must not use up the margins.
      const apart = (probe.dates.read()?.offset ?? 0) - probe.offset
      const shiftMs = shift + (Math.abs(apart) < ALLOWED ? apart : 0)
      const { status, ms } = await probe.ask('/api/v1/feeds', { shiftMs })
      const expected = Math.abs(shift) === INSIDE ? 200 : 401
      const text = `${shift / 1000} s: ${status}`
      if (status === expected) findings.push(ok(text))
      else if (ms > PROMPT) findings.push(notChecked(`${text}, after ${Math.round(ms)} ms`))
      else findings.push(deviation(`${text}, not ${expected}`))
    }
    return findings
  },
})

/** Sends signatures in each form in which official clients send them. */
export const signatureForms: CertifyCheck = defineCheck({
  name: 'signature-forms',
  title: 'A signature covers the path and the query as they are sent',
  documented:
    'METHOD, path with query, hash of the body, key and time are signed as sent; official clients send the comma of feedIDs as it is, or as %2C, and keys in either order',
  source: 'authentication page; the forms are in the official SDKs',
  requests: 4,
  async run(context) {
    const [feed] = await context.liveFeeds()
    if (feed === undefined) return [notChecked('no feed had a report')]
    const ids =
      context.feedIDs.length > 1 ? context.feedIDs.slice(0, 2) : [feed.feedID, feed.feedID]
    const query = `timestamp=${feed.observed}`
    const forms: Readonly<Record<string, string>> = {
      'a comma': `feedIDs=${ids.join(',')}&${query}`,
      '%2C': `feedIDs=${ids.join('%2C')}&${query}`,
      'the other order': `${query}&feedIDs=${ids.join(',')}`,
    }
    const findings = []
    for (const [name, search] of Object.entries(forms)) {
      const { status } = await context.probe.ask(`/api/v1/reports/bulk?${search}`)
      const text = `${name}: ${status}`
      findings.push(status === 200 || status === 206 ? ok(text) : deviation(text))
    }
    const upper = await context.probe.ask('/api/v1/feeds', {
      alter: headers => {
        const name = 'x-authorization-signature-sha256'
        headers.set(name, (headers.get(name) ?? '').toUpperCase())
      },
    })
    return [...findings, noted(`upper-case digits: ${upper.status}`)]
  },
})
