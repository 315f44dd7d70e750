require('../suite.cjs')({ sluice: require('sluice'), local: require('@sluice/engine') })

test('runs where the globals are a browser’s', () => {
  expect(document.createElement('p')).toBeInstanceOf(HTMLElement)
})
