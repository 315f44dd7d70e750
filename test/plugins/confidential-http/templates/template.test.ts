import { expect, test } from '@jest/globals'
import { renderTemplate } from '../../../../plugins/confidential-http/templates/template.js'

const values = new Map([
  ['a', 'x'.repeat(50_000)],
  ['b', '12345'],
  ['euro', '€'],
  ['key', '🔑'],
])
const render = (template: string, left?: number): string =>
  renderTemplate(
    'body',
    template,
    name => values.get(name),
    left === undefined ? undefined : { left },
  )

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

/** The longest text of the caller beside which a placeholder with this value still has room. */
function mostBeside(placeholder: string, value: string): number {
  let [fits, breaks] = [-1, 20_001]
  while (breaks - fits > 1) {
    const length = (fits + breaks) >> 1
    try {
      renderTemplate('body', 'x'.repeat(length) + placeholder, () => value, {
        left: 20_000,
        isSecret: name => name === 's',
      })
      fits = length
    } catch {
      breaks = length
    }
  }
  return fits
}

test.each([
  '{{.s}}',
  '{{json .s}}',
  '{{js .s}}',
  '{{.s | urlquery}}',
  '{{basicAuth .s .s}}',
  '{{.s | js .s}}',
])('the text that %s leaves room for tells nothing about the secret', placeholder => {
  const secrets = [
    '',
    'a',
    'a'.repeat(32),
    'a'.repeat(1022),
    '<'.repeat(1022),
    '"\\'.repeat(500),
    'é'.repeat(511),
  ]
  const rooms = secrets.map(secret => mostBeside(placeholder, secret))
  expect(new Set(rooms).size).toBe(1)
  expect(rooms[0]).toBeGreaterThan(0)
  expect(rooms[0]).toBeLessThan(20_000)
})

test('a filled secret never has more bytes than it counts for', () => {
  const values = ['<', '\u0000', '\\', '"', '%', '\u2028', '\u{10ffff}', '\u0080', ' ', 'é', 'a']
  for (const value of values.map(each => each.repeat(Math.floor(1022 / Buffer.byteLength(each)))))
    for (const run of ['json', 'js', 'urlquery', 'json | js', 'js | urlquery']) {
      const room = { left: 1_000_000, isSecret: () => true }
      const text = renderTemplate('body', `{{.s | ${run}}}`, () => value, room)
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(1_000_000 - room.left)
    }
})

test('values of the caller count for what they have, also beside a secret', () => {
  expect(mostBeside('{{.p}}', 'p'.repeat(20))).toBe(19_980)
  expect(mostBeside('{{js .p}}', '<'.repeat(20))).toBe(20_000 - 6 * 20)
  expect(mostBeside('{{.s}}', 'p'.repeat(20))).toBe(20_000 - 1024)
  expect(mostBeside('{{.s}}', 'p'.repeat(1025))).toBe(20_000 - 2048)
})
