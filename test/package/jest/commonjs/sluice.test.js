require('../suite.cjs')({
  sluice: require('sluice'),
  local: require('@sluice/engine'),
  confidential: require('@sluice/confidential-http'),
  vaults: require('@sluice/confidential-http/vault'),
})
