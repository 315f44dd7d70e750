// A share of the table of attacks; node-attack-table.long.test.ts has the whole.
import { testAttacks } from '../support/vault/attack-table.js'

testAttacks(6)
