import { environment } from '@sluice/engine/vitest'
import engine from './options.cjs'

export default { test: { environment, environmentOptions: { engine } } }
