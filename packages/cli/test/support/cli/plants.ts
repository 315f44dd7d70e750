import { feedID } from '@sluice/test-support/service/service.js'
import { feeds, type Plant } from './certify.js'

const [first = '', second = '', inMs = ''] = feeds
const pathOf = ({ path }: { readonly path: string }): string => path.split('?', 1)[0] as string

/** Deviations from the protocol, each with the checks that must find it, and no others. */
export const plants: Readonly<Record<string, Plant>> = {
  'a wrong signature is answered 403': {
    found: ['bad-signature', 'wrong-key'],
    plant: service =>
      service.changeAnswers((request, answer) =>
        pathOf(request) === '/api/v1/feeds' && /match|key/.test(answer.body)
          ? { ...answer, status: 403 }
          : answer,
      ),
  },
  'a missing header is answered 401': {
    found: ['missing-header'],
    plant: service =>
      service.changeAnswers((request, answer) =>
        !request.upgrade && /header is missing/.test(answer.body)
          ? { ...answer, status: 401 }
          : answer,
      ),
  },
  'an unknown feed is answered 404': {
    found: ['unknown-feed'],
    plant: service =>
      service.changeAnswers((request, answer) =>
        !request.upgrade && /feed not allowed/.test(answer.body)
          ? { ...answer, status: 404 }
          : answer,
      ),
  },
  'signatures are accepted for a minute': {
    found: ['time-tolerance'],
    plant: service =>
      service.changeAnswers((_request, answer) =>
        /too far/.test(answer.body) ? { status: 200, body: '{"feeds":[]}' } : answer,
      ),
  },
  'reports are signed for another feed': {
    found: ['envelope'],
    plant: (service, often) =>
      often(() => service.publish(first, { fields: { feedID: feedID(3, 99) } })),
  },
  'the envelope has another time than the report': {
    found: ['envelope'],
    plant: (service, often) =>
      often(() => service.publish(inMs, { envelope: { observationsTimestamp: 5 } })),
  },
  'a window ends before it begins': {
    found: ['window'],
    plant: (service, often) => often(() => service.publish(inMs, { validFrom: Date.now() + 5000 })),
  },
  'bulk leaves out a feed with 200': {
    found: ['bulk'],
    plant: service =>
      service.changeAnswers((request, answer) => {
        if (pathOf(request) !== '/api/v1/reports/bulk' || answer.status !== 200) return answer
        const { reports } = JSON.parse(answer.body)
        return { status: 200, body: JSON.stringify({ reports: reports.slice(1) }) }
      }),
  },
  'bulk answers 200 to a time that has not come': {
    found: ['bulk-partial'],
    plant: service =>
      service.changeAnswers((_request, answer) =>
        answer.status === 206 ? { ...answer, status: 200 } : answer,
      ),
  },
  'a page is not in order': {
    found: ['page'],
    plant: service => service.changePages(first, reports => [...reports].reverse()),
  },
  'a page does not begin at its start': {
    found: ['page'],
    plant: service =>
      service.changePages(second, (reports, start, limit) =>
        limit > 100 ? reports : reports.filter(({ observed }) => observed !== start),
      ),
  },
  'the latest report is an old one': {
    found: ['latest-newest'],
    plant(service) {
      let asked = 0
      service.changeAnswers((request, answer) => {
        if (pathOf(request) !== '/api/v1/reports/latest' || answer.status !== 200) return answer
        const { report } = JSON.parse(answer.body)
        const isFirst = asked++ < feeds.length
        const old = service.stored(report.feedID).at(-6)
        return isFirst || old === undefined ? answer : { ...answer, body: `{"report":${old.json}}` }
      })
    },
  },
  'the clock of the service is 30 s off': {
    found: ['clock'],
    options: { now: () => Date.now() - 30_000 },
  },
  'its dates are 30 s off': { found: ['clock'], options: { dateError: 30_000 } },
  'a stream sends text that is no JSON': {
    found: ['stream-messages'],
    plant: (service, often) => often(() => service.sendFrame('welcome')),
  },
  'a stream sends a feed that was not asked for': {
    found: ['stream-feeds'],
    plant: (service, often) =>
      often(() => {
        const stranger = service.skip(feedID(3, 77))
        service.sendFrame(stranger.frame)
      }),
  },
  'a stream answers no ping': { found: ['pong'], options: { answersPings: false } },
  'a stream answers no close': {
    found: ['close'],
    plant: (service, often) =>
      often(() => {
        for (const { connections } of service.origins)
          for (const { webSocket } of connections) webSocket.close = () => undefined
      }),
  },
  'a stream opens with a wrong signature': {
    found: ['stream-refusals'],
    plant: service =>
      service.changeAnswers((request, answer) =>
        request.upgrade && /does not match/.test(answer.body) ? { status: 101, body: '' } : answer,
      ),
  },
  'an origin of the list is dead': {
    found: ['origins'],
    plant: service => service.origin('002').kill('refuse'),
  },
  'an origin brings nothing once it is connected again': {
    found: ['reconnection'],
    plant: service =>
      service.changeAnswers((request, answer) => {
        const origin = service.origin('001')
        const isSecond =
          request.upgrade && request.origin === '001' && origin.pastConnections.length > 0
        if (isSecond && answer.status === 101) origin.mute({ coming: true })
        return answer
      }),
  },
  'windows overlap': {
    found: ['window-order'],
    plant: (service, often) =>
      often(() => service.publish(inMs, { validFrom: Date.now() - 60_000 })),
  },
  'a page leaves a report out': {
    found: ['window-order'],
    plant: service =>
      service.changePages(first, (reports, _start, limit) =>
        limit > 100 ? reports : reports.filter(({ observed }) => observed % 3 !== 0),
      ),
  },
  'live reports have expired': {
    found: ['expiry'],
    plant: (service, often) =>
      often(() => service.publish(inMs, { expiresAt: Date.now() + 10, sendAfter: 60 })),
  },
  'a time has two reports': {
    found: ['duplicates'],
    plant: (service, often) =>
      often(() => {
        const { observed, validFrom } = service.store(inMs)
        service.send(inMs, { observed, validFrom, fields: { price: 5n } })
      }),
  },
  'a report is signed by an outsider': {
    found: ['signatures'],
    plant: (service, often) => often(() => service.publish(first, { signatures: 'outsider' })),
  },
  'the streamed reports are not stored': {
    // Their windows are missing in the pages.
    found: ['gaps', 'window-order'],
    plant: (service, often) => often(() => service.send(inMs)),
  },
}
