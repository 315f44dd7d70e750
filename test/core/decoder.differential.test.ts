import { test } from '@jest/globals'
import { checkAgreement } from './decoder-agreement.js'
import { versions } from './report-arbitrary.js'

test.each(versions)(
  'random reports of version %i, in seconds, decode as by viem and ethers',
  version => {
    checkAgreement(version, 's', 5_000)
  },
  120_000,
)
