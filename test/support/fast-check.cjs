// What tests import as fast-check. In `npm test` random inputs are the same each time; RANDOM_SEED asks for others. In the full tier
// they differ each time, and a failure prints its seed.
const fc = require('../../node_modules/fast-check/lib/cjs/fast-check.js')

const { RANDOM_SEED, TEST_FULL } = process.env
if (RANDOM_SEED !== undefined || TEST_FULL !== '1')
  fc.configureGlobal({ seed: Number(RANDOM_SEED ?? 1) })

module.exports = fc
