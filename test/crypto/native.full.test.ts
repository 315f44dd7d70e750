import { test } from '@jest/globals'
import { compareP256, compareX25519 } from '../support/crypto-differential.js'

const RUNS = 10_000

test("the platform's P-256 multiplies as the library does", () => {
  compareP256(RUNS)
}, 600_000)

test("the platform's X25519 shares the same keys as tweetnacl", () => {
  compareX25519(RUNS)
}, 600_000)
