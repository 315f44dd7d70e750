// Each message × what a malicious holder does with it × the step at which it does so × the change of the key.
import { testAttacks } from '../support/vault/attack-table.js'

testAttacks()
