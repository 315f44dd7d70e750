require('../suite.cjs')({ sluice: require('sluice'), local: require('sluice/local') })

test('runs where the globals are a browser’s', () => {
  expect(document.createElement('p')).toBeInstanceOf(HTMLElement)
})
