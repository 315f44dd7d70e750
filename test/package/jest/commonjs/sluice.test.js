require('../suite.cjs')({
  sluice: require('sluice'),
  local: require('sluice/local'),
  confidential: require('sluice/confidential-http'),
})
