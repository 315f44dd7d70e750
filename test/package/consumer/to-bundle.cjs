// For a bundler: all that is required, it can see.
const { talk } = require('./work.cjs')

const entries = { sluice: require('sluice'), '@sluice/engine': require('@sluice/engine') }

talk(async name => entries[name]).catch(error => {
  console.error(error)
  process.exitCode = 1
})
