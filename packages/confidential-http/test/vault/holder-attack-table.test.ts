// A share of the table of attacks; holder-attack-table.long.test.ts has the whole.
import { testAttacks } from '../support/vault/attack-table.js'

testAttacks(4)
