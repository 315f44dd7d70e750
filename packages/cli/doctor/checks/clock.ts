import { type Check, exitCodes, failed, ok, warning } from '../check.js'

/** The service rejects signatures that are further from its clock, in milliseconds. */
const ALLOWED = 5000
const WARNING = 2000
const DAY = 86_400_000

/** Whether this machine's clock agrees with the service's, which rejects signatures by another time. */
export const clock: Check = {
  name: 'clock',
  needs: ['packages', 'tls'],
  exitCode: exitCodes.access,
  async run(context) {
    const reading = await context.clock()
    if (reading === undefined)
      return [
        warning(
          'the service’s answers have no Date, so its clock is not known',
          'see that this machine’s clock is set by NTP',
        ),
      ]
    const { offset, error } = reading
    const facts = { offsetMs: offset, errorMs: error }
    const least = Math.max(0, Math.abs(offset) - error)
    const difference = `${describe(Math.abs(offset), error)} ${offset > 0 ? 'behind' : 'ahead of'} the service’s`
    if (least <= WARNING)
      return [ok(`agrees with the service’s, ${describe(offset, error)}`, facts)]
    const advice = 'set the clock of this machine: by NTP, as timedatectl set-ntp true'
    if (least <= ALLOWED) return [warning(`is ${difference}`, advice, facts)]
    const consequence =
      Math.abs(offset) > DAY
        ? 'no request is accepted'
        : 'the service accepts signatures within 5 s, and sluice corrects its own'
    return [failed(`is ${difference}: ${consequence}`, advice, facts)]
  },
}

function describe(ms: number, error: number): string {
  return `${(ms / 1000).toFixed(1)} s ± ${(error / 1000).toFixed(1)} s`
}
