require('../suite.cjs')({
  sluice: require('sluice'),
  local: require('@sluice/engine'),
  confidential: require('@sluice/confidential-http'),
})
