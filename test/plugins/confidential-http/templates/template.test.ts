import { expect, test } from '@jest/globals'
import { renderTemplate } from '../../../../plugins/confidential-http/templates/template.js'

const values = new Map([
  ['a', 'x'.repeat(50_000)],
  ['b', '12345'],
  ['euro', '€'],
  ['key', '🔑'],
])
const render = (template: string, maxBytes?: number): string =>
  renderTemplate('body', template, name => values.get(name), maxBytes)

test('a template fills up to the limit, and no byte more', () => {
  expect(render('{{.b}}-{{.b}}', 11)).toBe('12345-12345')
  expect(() => render('{{.b}}-{{.b}}', 10)).toThrow(
    'body: with its placeholders filled, the request is too long',
  )
  expect(() => render('{{.b}}{{.b}} ', 10)).toThrow(/too long/)
  expect(render('{{.euro}}é{{.key}}', 9)).toBe('€é🔑')
  expect(() => render('{{.euro}}é{{.key}}', 8)).toThrow(/too long/)
})

test('a short template that would fill gigabytes is rejected before it does', () => {
  const before = process.memoryUsage().heapUsed
  expect(() => render('{{.a}}'.repeat(100_000), 125_000)).toThrow(/too long/)
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(50_000_000)
})
