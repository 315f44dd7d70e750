const { work } = require('./work.cjs')

work(async name => require(name)).catch(error => {
  console.error(error)
  process.exitCode = 1
})
