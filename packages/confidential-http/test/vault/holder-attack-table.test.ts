// One row of the table of attacks; holder-attack-table.full.test.ts has the whole.
import { testAttacks } from '../support/vault/attack-table.js'

testAttacks(
  ({ action, kind, step }, change) =>
    change === 'reshare' && kind === 'deal' && step === 'deal' && action === 'lie',
)
