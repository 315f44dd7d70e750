import { describe, expect, test } from '@jest/globals'
import fc from 'fast-check'
import { EnclaveError } from '../../../../plugins/confidential-http/errors.js'
import {
  functions,
  renderTemplate,
} from '../../../../plugins/confidential-http/templates/template.js'
import { anyCharacter } from '../../../support/characters.js'
import { readVectors } from '../../../support/files.js'
import { processorTime } from '../../../support/processor-time.js'

interface Row {
  readonly template: string
  /** Absent where Go fails. */
  readonly output?: string
}

interface Vectors {
  readonly data: Readonly<Record<string, string>>
  readonly rows: readonly Row[]
  readonly json: Readonly<Record<string, string>>
  readonly basicAuth: readonly {
    readonly user: string
    readonly password: string
    readonly output: string
  }[]
}

const vectors = readVectors<Vectors>('go-template-functions.json')
const { data, rows } = vectors
const find = (name: string): string | undefined => data[name]

/** Go ignores a pipe that leads nowhere. */
const strict = ['{{js .a |}}', '{{.a | }}']

describe('a function of a template', () => {
  test.each(rows.filter(({ template }) => !strict.includes(template)))(
    '$template does what Go does',
    ({ template, output }) => {
      if (output === undefined) {
        expect(() => renderTemplate('body', template, find)).toThrow(EnclaveError)
        return
      }
      expect(renderTemplate('body', template, find)).toBe(output)
    },
  )

  test('has rows of Go of either kind', () => {
    expect(rows.filter(({ output }) => output !== undefined).length).toBeGreaterThan(45)
    expect(rows.filter(({ output }) => output === undefined).length).toBeGreaterThan(15)
  })

  test.each(strict)('%s is refused, though Go ignores the pipe', template => {
    expect(() => renderTemplate('body', template, find)).toThrow('is no placeholder')
  })

  test.each(Object.entries(vectors.json))(
    'json .%s is a string of JSON, as Go has it',
    (name, go) => {
      const own = renderTemplate('body', `{{json .${name}}}`, find)
      expect(JSON.parse(own)).toBe(JSON.parse(go))
    },
  )

  test.each(vectors.basicAuth)(
    'basicAuth of $user and $password is what Go sends',
    ({ user, password, output }) => {
      const values: Readonly<Record<string, string>> = { user, password }
      const rendered = renderTemplate('h', '{{basicAuth .user .password}}', name => values[name])
      expect(rendered).toBe(output)
    },
  )

  test('json puts any value into JSON that stays JSON', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), value => {
        const body = renderTemplate('b', '{"a":{{json .v}},"b":[{{.v | json}}]}', () => value)
        expect(JSON.parse(body)).toEqual({ a: value, b: [value] })
      }),
    )
  })

  test('urlquery puts any value into a form that stays a form', () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter }), value => {
        const body = renderTemplate('b', 'a={{urlquery .v}}&b={{.v | urlquery}}', () => value)
        expect([...new URLSearchParams(body)]).toEqual([
          ['a', value],
          ['b', value],
        ])
      }),
    )
  })

  test('js puts any value into a string of JavaScript', () => {
    const text = fc
      .string({ unit: anyCharacter })
      // Go writes \u and five digits for what is not printable beyond the first plane.
      .filter(value => !/(?![\p{L}\p{M}\p{N}\p{P}\p{S}])[\u{10000}-\u{10ffff}]/u.test(value))
    fc.assert(
      fc.property(text, value => {
        for (const quote of [`"`, `'`]) {
          const source = renderTemplate('b', `${quote}{{js .v}}${quote}`, () => value)
          expect(new Function(`return ${source}`)()).toBe(value)
        }
      }),
    )
  })
})

describe('wrong arguments are an error that quotes no value', () => {
  const values: Readonly<Record<string, string>> = {
    a: 'the-first-value',
    b: 'the-second-value',
    colon: 'the-user:name',
    line: 'the-password\n',
    del: 'the-\x7f-password',
  }
  // It does not say which of the rules a secret breaks.
  const wrongCredentials =
    'basicAuth must have a user without a colon, which ends it, and no control character in user or password'
  const render = (template: string): string =>
    renderTemplate('request.bodyString', template, name => values[name])

  test.each([
    ['{{json}}', 'json must have one argument, as in {{json .name}}, not 0'],
    ['{{json .a .b}}', 'json must have one argument, as in {{json .name}}, not 2'],
    [
      '{{basicAuth .a}}',
      'basicAuth must have two arguments, as in {{basicAuth .user .password}}, not 1',
    ],
    [
      '{{.a | basicAuth .a .b}}',
      'basicAuth must have two arguments, as in {{basicAuth .user .password}}, not 3',
    ],
    ['{{basicAuth .colon .b}}', wrongCredentials],
    ['{{basicAuth .a .line}}', wrongCredentials],
    ['{{basicAuth .del .a}}', wrongCredentials],
    ['{{json .missing}}', 'nothing is known for the placeholder {{.missing}}'],
    ['{{upper .a}}', '"{{upper .a}}" is no placeholder: write {{.name}}'],
    ['{{constructor .a}}', '"{{constructor .a}}" is no placeholder: write {{.name}}'],
    ['{{json ..a}}', '"{{json ..a}}" is no placeholder: write {{.name}}'],
  ])('%s', (template, message) => {
    let error: unknown
    try {
      render(template)
    } catch (thrown) {
      error = thrown
    }
    expect(error).toMatchObject({ name: 'EnclaveError', code: 'TEMPLATE' })
    expect((error as Error).message).toContain(`request.bodyString: ${message}`)
    expect((error as Error).message).not.toMatch(/the-/)
  })

  test('names every function in the error of another', () => {
    expect(() => render('{{html .a}}')).toThrow([...functions.keys()].join(', '))
  })
})

describe('a short template can not make long work', () => {
  test('of many pipes', () => {
    const piped = (count: number): string =>
      renderTemplate('b', `{{.a${' | js'.repeat(count)}}}`, () => 'a')
    expect(piped(8)).toBe('a')
    expect(() => piped(9)).toThrow('is no placeholder')
  })

  test('of escapes that grow on each other', () => {
    const template = `{{.a${' | js'.repeat(8)}}}`
    expect(() =>
      renderTemplate('b', template, () => '\\'.repeat(10_000), { left: 125_000 }),
    ).toThrow('too long')
  })

  test('of thousands of arguments', async () => {
    const value = 'x'.repeat(100_000)
    const timeOf = (count: number): Promise<number> => {
      const template = `{{js${' .a'.repeat(count)}}}`
      return processorTime(() =>
        expect(() => renderTemplate('b', template, () => value, { left: 125_000 })).toThrow(
          'too long',
        ),
      )
    }
    const [short, long] = [await timeOf(4000), await timeOf(40_000)]
    expect(long).toBeLessThan(40 * short + 100)
  })
})
