import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { EnclaveError } from '../../../plugins/confidential-http/errors.js'
import { templates } from '../../../plugins/confidential-http/templates/index.js'
import { renderTemplate } from '../../../plugins/confidential-http/templates/template.js'
import { anyCharacter } from '../../support/characters.js'
import { callOf, carry } from '../../support/plugins/confidential-http.js'
import { processorTime } from '../../support/processor-time.js'
import { inForm } from '../../support/tier.js'
import { failureOf } from '../../support/waiting.js'

interface Vectors {
  readonly data: Readonly<Record<string, string>>
  readonly rows: readonly Row[]
}

interface Row {
  readonly template: string
  /** Absent where Go fails. */
  readonly output?: string
}

const vectorsOf = (file: string): Vectors =>
  JSON.parse(readFileSync(join(__dirname, '../../vectors', file), 'utf8'))

/** The actions in a template, found without parsing it: up to the first closing braces. */
const actionsOf = (template: string): readonly string[] =>
  template.match(/\{\{\/\*.*?\*\/.*?\}\}|\{\{.*?(\}\}|$)/gs) ?? []

/** Actions other than fields of the data, js of one and comments are not covered, nor are names without a value. */
function isCovered(action: string, data: Vectors['data']): boolean {
  const inner = action.replace(/^\{\{(-\s)?/, '').replace(/(\s-)?\}\}$/, '')
  const name = inner.trim().replace(/^js \./, '.')
  return inner.startsWith('/*') || Object.hasOwn(data, name.replace('.', ''))
}

const rows = ['go-template.json', 'go-template-edges.json'].flatMap(file => {
  const { data, rows } = vectorsOf(file)
  return rows.map(row => ({ ...row, data }))
})
const isRendered = ({ template, output, data }: (typeof rows)[number]): boolean =>
  output !== undefined && actionsOf(template).every(action => isCovered(action, data))

const rendered = rows.filter(isRendered)
const refused = rows.filter(row => !isRendered(row))

describe('a template', () => {
  test('has rows of either kind', () => {
    expect(rendered.length).toBeGreaterThan(60)
    expect(refused.length).toBeGreaterThan(80)
  })

  test.each(rendered)('$template renders as Go does', async ({ template, output, data }) => {
    const { reply, sent } = carry(
      [templates()],
      callOf({ body: template, released: new Map(Object.entries(data)) }),
    )
    await reply
    expect(sent[0]?.body).toBe(output)
  })

  test.each(refused)('$template is rejected by name, and nothing is sent', async row => {
    const { template, data } = row
    const { reply, sent } = carry(
      [templates()],
      callOf({ body: template, publicValues: new Map(Object.entries(data)) }),
    )
    const error = await failureOf(reply)
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'TEMPLATE' })
    expect(error.message).toMatch(/^request\.bodyString: /)
    const named = actionsOf(template).some(
      action =>
        error.message.includes(JSON.stringify(action)) ||
        error.message.includes(`placeholder ${action}: list it in`),
    )
    expect(named).toBe(true)
    expect(sent).toEqual([])
  })

  test('is filled in one pass: values are not read again', () => {
    const value = fc.oneof(
      fc.string(),
      fc.constantFrom('{{.a}}', '{{', '}}', '{{.missing}}', ' -}} ', '$&', "$'", '{{/*'),
    )
    fc.assert(
      fc.property(value, value, (a, b) => {
        const find = (name: string) => ({ a, b })[name]
        expect(renderTemplate('t', '<{{.a}}|{{.b}}{{.a}}>', find)).toBe(`<${a}|${b}${a}>`)
        expect(renderTemplate('t', ' {{- .a -}} ', find)).toBe(a)
      }),
    )
  })

  test('of any text renders or throws EnclaveError', () => {
    const piece = fc.oneof(
      fc.constantFrom('{{', '}}', '{{-', '-}}', ' -}}', '.', '.a', '/*', '*/', '{{.a}}', ' ', '\n'),
      fc.string({ unit: anyCharacter }),
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 12 }), pieces => {
        try {
          const text = renderTemplate('t', pieces.join(''), name =>
            name === 'a' ? 'A' : undefined,
          )
          expect(typeof text).toBe('string')
        } catch (error) {
          expect(error).toBeInstanceOf(EnclaveError)
          expect((error as EnclaveError).code).toBe('TEMPLATE')
          expect((error as EnclaveError).message.length).toBeLessThan(500)
        }
      }),
      { numRuns: inForm(200, 2000) },
    )
  })

  test('without braces is itself', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), text => {
        fc.pre(!text.includes('{{'))
        expect(renderTemplate('t', text, () => undefined)).toBe(text)
      }),
    )
  })

  test.each([
    ['open braces', '{{'],
    ['open comments', '{{/*'],
    ['names without an end', '{{.a'],
    ['left trim markers', '{{- '],
    ['spaces', ' '],
    ['spaces within braces', '{{.a}}{{ ', ' '],
    ['spaces after a name', '{{.a', ' '],
    ['minus signs after a name', '{{.a', ' -'],
    ['a name', '{{.', 'a'],
    ['placeholders', '{{.a}}'],
    ['trimming placeholders', ' {{- .a -}} '],
    ['comments', '{{/* */}}'],
    ['ends of comments', '{{/*', '*/ '],
    ['closing braces', '}}'],
    ['spaces to trim', '{{.a -}}', ' \n'],
    ['spaces to trim before text', 'x{{.a -}}', ' ', 'x{{- .a}}'],
  ])('of 30 kB and ten times as many %s takes no more time per byte', async (_name, ...parts) => {
    const [start = '', unit = start, end = ''] = parts
    const timeOf = (bytes: number): Promise<number> => {
      const text = `${start}${unit.repeat(bytes / unit.length)}${end}`
      return processorTime(() => {
        try {
          renderTemplate('t', text, () => 'A')
        } catch (error) {
          expect(error).toBeInstanceOf(EnclaveError)
        }
      })
    }
    const [short, long] = [await timeOf(30_000), await timeOf(300_000)]
    // Quadratic, it would be a hundred times as much, and seconds.
    expect(long).toBeLessThan(40 * short + 100)
  })
})

describe('templates', () => {
  const filled = async (
    template: string,
    values: { readonly public?: object; readonly secret?: object },
  ): Promise<unknown> => {
    const { reply, sent } = carry(
      [templates()],
      callOf({
        body: template,
        publicValues: new Map(Object.entries(values.public ?? {})),
        released: new Map(Object.entries(values.secret ?? {})),
      }),
    )
    await reply
    return sent[0]?.body
  }

  test('fills with the public value first, then with the secret', async () => {
    const values = { public: { both: 'public', p: 'P' }, secret: { both: 'secret', s: 'S' } }
    expect(await filled('{{.both}} {{.p}} {{.s}}', values)).toBe('public P S')
    expect(await filled('[{{.x}}]', { public: { x: '' }, secret: { x: 'secret' } })).toBe('[]')
  })

  test.each(['constructor', 'toString', 'hasOwnProperty', '__proto__'])(
    'rejects {{.%s}} unless it is listed',
    async name => {
      const error = await failureOf(filled(`{{.${name}}}`, { public: { x: '' } }))
      expect(error).toMatchObject({ code: 'TEMPLATE' })
    },
  )

  test('fills every value of every header, and leaves names, URL and bytes alone', async () => {
    const bytes = new TextEncoder().encode('{{.a}}')
    const call = callOf({
      url: 'https://api.example/{{.a}}',
      body: bytes,
      multiHeaders: new Map([
        ['X-{{.a}}', ['plain', '{{.a}}-{{.a}}']],
        ['Other', []],
      ]),
      publicValues: new Map([['a', 'A']]),
    })
    const { reply, sent } = carry([templates()], call)
    await reply
    expect(sent[0]).toMatchObject({ url: call.url, body: bytes })
    expect([...(sent[0]?.multiHeaders ?? [])]).toEqual([
      ['X-{{.a}}', ['plain', 'A-A']],
      ['Other', []],
    ])
  })

  test('sends a request without body and headers as it is', async () => {
    const { reply, sent } = carry([templates()], callOf())
    await reply
    expect(sent[0]).not.toHaveProperty('body')
  })

  const bad = ['\r', '\n', '\0', '\r\nX-Injected: 1', '\x7f', '\x1b', '\v']
  test.each(['static', 'public', 'secret'].flatMap(from => bad.map(text => [from, text] as const)))(
    'refuses a header that holds a %s %j, naming it',
    async (from, text) => {
      const value = `value-${text}-value`
      const { reply, sent } = carry(
        [templates()],
        callOf({
          multiHeaders: new Map([['X-Key', ['fine', from === 'static' ? value : 'key {{.k}}']]]),
          publicValues: new Map(from === 'public' ? [['k', value]] : []),
          released: new Map(from === 'secret' ? [['k', value]] : []),
        }),
      )
      const error = await failureOf(reply)
      expect(error).toMatchObject({ name: 'EnclaveError', code: 'TEMPLATE' })
      expect(error.message).toMatch(/^request\.multiHeaders\.X-Key\.values\[1\] must not hold CR/)
      expect(String(error.stack)).not.toMatch(/value-|Injected/)
      expect(sent).toEqual([])
    },
  )

  test('lets a header hold a tab and every text beyond ASCII', async () => {
    const values = ['a\tb', 'ключ 🔑', '\u0080\u009f']
    const { reply, sent } = carry([templates()], callOf({ multiHeaders: new Map([['X', values]]) }))
    await reply
    expect(sent[0]?.multiHeaders.get('X')).toEqual(values)
  })

  test('names the header whose placeholder has no value', async () => {
    const multiHeaders = new Map([['Authorization', ['Bearer {{.token}}']]])
    expect(await failureOf(carry([templates()], callOf({ multiHeaders })).reply)).toMatchObject({
      message:
        'request.multiHeaders.Authorization.values[0]: nothing is known for the placeholder {{.token}}: list it in vaultDonSecrets or templatePublicValues',
    })
  })

  test('quotes no more than the beginning of a long action', async () => {
    for (const body of [`{{.${'n'.repeat(100_000)}}}`, `{{if ${'n'.repeat(100_000)}}}`, '{{'])
      expect(
        (await failureOf(carry([templates()], callOf({ body })).reply)).message.length,
      ).toBeLessThan(300)
  })
})
