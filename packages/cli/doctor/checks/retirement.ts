import { isDenial, isNotFound } from 'sluice/client'
import { type Check, exitCodes, ok, warning } from '../check.js'

const DAY = 86_400_000

/** Checks whether the service is going to retire feeds: the given feeds, or all readable ones. */
export const retirement: Check = {
  name: 'retirement',
  needs: ['credentials'],
  exitCode: exitCodes.access,
  async run(context, signal) {
    const { feedIDs } = context.subject
    const asked = new Set(feedIDs.length > 0 ? feedIDs : await context.readableFeeds())
    try {
      // The day itself does not belong to the filter, and feeds may retire today.
      const expectedDecommissionAfter = new Date(Date.now() - DAY)
      const found = await context
        .client()
        .discover({ expectedDecommissionAfter, hidden: true, signal })
      const retiring = found.filter(({ feedID }) => asked.has(feedID))
      if (retiring.length === 0) return [ok('no feed has a date in the catalogue')]
      return retiring.map(({ feedID, name = feedID, expectedDecommissionAt: at }) => {
        const day = at?.toISOString().slice(0, 10)
        return warning(
          `the service is going to retire ${name === feedID ? feedID : `${name} ${feedID}`} on ${day}`,
          'find its successor, and replace it before that day: sluice feeds lists the catalogue',
          { feedID, retiresOn: day },
        )
      })
    } catch (thrown) {
      if (isNotFound(thrown)) return [ok('the service has no catalogue, so no feed has a date')]
      if (signal.aborted || isDenial(thrown)) throw thrown
      return [
        warning(
          'the service’s catalogue does not answer, so dates of retirement are not known',
          'try again later',
        ),
      ]
    }
  },
}
