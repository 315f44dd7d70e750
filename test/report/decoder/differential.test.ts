import { describe, test } from '@jest/globals'
import { checkAgreement } from '../../support/report/decoder-agreement.js'
import { LIMIT, REPORTS } from '../../support/report/decoder-runs.js'
import { resolutions, THIRD_PARTY, versions } from '../../support/report/report-arbitrary.js'

describe.each(resolutions)('random reports with times in %s', resolution => {
  test.each([...versions, THIRD_PARTY])(
    'of version %i decode as by viem and ethers',
    version => {
      checkAgreement(version, resolution, REPORTS / resolutions.length)
    },
    LIMIT,
  )
})
