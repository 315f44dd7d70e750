import { functions, type TemplateFunction } from './functions.js'

/** A placeholder: its steps are taken in turn, and each hands its value on to the next as the last argument. */
export interface Action {
  /** Empty for a comment. */
  readonly steps: readonly Step[]
  /** Whether the white space before it is left out. */
  readonly trimBefore: boolean
  readonly trimAfter: boolean
  readonly end: number
}

/** `.name` alone, or a function with the names of its arguments. */
export interface Step {
  readonly run?: TemplateFunction
  readonly names: readonly string[]
}

/** The steps behind the first; without a limit, a short template would be long work. */
const MAX_PIPES = 8

const opening = /\{\{(-[ \t\r\n])?/uy
const closing = /(?:([ \t\r\n]+-)|[ \t\r\n]*)\}\}/uy
const spaces = /[ \t\r\n]*/uy
const pipe = /[ \t\r\n]*\|[ \t\r\n]*/uy
const field = /\.((?![0-9])[_\p{L}\p{Nd}]+)/uy
const argument = /[ \t\r\n]+\.((?![0-9])[_\p{L}\p{Nd}]+)/uy
const word = /[a-zA-Z]+/uy
const commentStart = /\{\{(-[ \t\r\n])?\/\*/uy
const commentEnd = /\*\/([ \t\r\n]-)?\}\}/uy

/** Reads the action at the two braces at `start`; undefined for any other than the actions of `renderTemplate`. */
export function readAction(template: string, start: number): Action | undefined {
  return readPipeline(template, start) ?? readComment(template, start)
}

/** `{{.name}}`, `{{function .name .name}}`, and either with `| function .name` behind it. */
function readPipeline(template: string, start: number): Action | undefined {
  let at = start
  /** Moves on behind what matches here. */
  function take(pattern: RegExp): RegExpExecArray | undefined {
    const found = matchAt(pattern, template, at)
    at += found?.[0].length ?? 0
    return found ?? undefined
  }
  function readCall(): Step | undefined {
    const run = functions.get(take(word)?.[0] ?? '')
    if (run === undefined) return undefined
    const names: string[] = []
    for (let next = take(argument); next !== undefined; next = take(argument))
      names.push(next[1] as string)
    return { run, names }
  }

  const opened = take(opening)
  take(spaces)
  const [, name] = take(field) ?? []
  const steps: (Step | undefined)[] = [name === undefined ? readCall() : { names: [name] }]
  while (steps.length <= MAX_PIPES && steps.at(-1) !== undefined && take(pipe) !== undefined)
    steps.push(readCall())
  const closed = take(closing)
  if (closed === undefined || !steps.every(step => step !== undefined)) return undefined
  return {
    steps,
    trimBefore: opened?.[1] !== undefined,
    trimAfter: closed[1] !== undefined,
    end: at,
  }
}

function readComment(template: string, start: number): Action | undefined {
  const opened = matchAt(commentStart, template, start)
  if (opened === null) return undefined
  const close = template.indexOf('*/', start + opened[0].length)
  const closed = close === -1 ? null : matchAt(commentEnd, template, close)
  if (closed === null) return undefined
  return {
    steps: [],
    trimBefore: opened[1] !== undefined,
    trimAfter: closed[1] !== undefined,
    end: close + closed[0].length,
  }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}
