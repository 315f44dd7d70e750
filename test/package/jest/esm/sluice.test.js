import * as local from '@sluice/engine'
import * as sluice from 'sluice'
import defineTests from '../suite.cjs'

defineTests({ sluice, local })
