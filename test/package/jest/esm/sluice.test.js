import * as sluice from 'sluice'
import * as local from 'sluice/local'
import defineTests from '../suite.cjs'

defineTests({ sluice, local })
