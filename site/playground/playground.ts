// The playground: paste a report or a proof, and see what its bytes say. Everything happens in this
// page. Texts of the input become text nodes, never HTML.
import { findFeed } from 'sluice'
import type { Verification } from 'sluice/plugins/verify'
import type { CheckedProof } from 'sluice/proof'
import given from './examples.json' with { type: 'json' }
import { contradictions, type GivenReport, type Input, MAX_TEXT, readInput } from './input.js'
import { type Group, type Inspection, inspectReport, MAX_BYTES, type Part } from './inspect.js'
import { showValue } from './meanings.js'
import './playground.css'
import type { Recovered, SignerSets } from './verdicts.js'

/** The longest list of signers that is read, in characters. */
const MAX_SIGNERS_TEXT = 100_000
/** How long typing must pause before the input is read, in milliseconds. */
const PAUSE = 250
const DEFAULT_DECIMALS = 18
/** Bytes of a row of the hex view, which is one word, and digits that stand together. */
const WORD = 32
const CLUSTER = 8

type Level = 'good' | 'bad' | 'warning' | 'open'
type Child = Node | string | undefined

/** Makes an element with attributes and children. A string becomes text. */
function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  attributes: Readonly<Record<string, string | undefined>> = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name)
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined) element.setAttribute(key, value)
  for (const child of children) if (child !== undefined) element.append(child)
  return element
}

let lastID = 0
/** An id that no other element of the page has. */
const freshID = (): string => `sluice-playground-${++lastID}`

/** Text for screen readers alone. */
const hidden = (text: string): HTMLElement => make('span', { class: 'pg-hidden' }, text)

function verdict(level: Level, title: string, ...children: readonly Child[]): HTMLElement {
  const shape = make('span', { class: 'pg-shape', 'aria-hidden': 'true' })
  return make(
    'div',
    { class: 'pg-verdict', 'data-level': level },
    make('h3', {}, shape, title),
    ...children,
  )
}

const paragraph = (text: string, className?: string): HTMLElement =>
  make('p', { class: className }, text)

function list(items: readonly string[]): HTMLElement {
  return make('ul', { class: 'pg-list' }, ...items.map(item => make('li', {}, item)))
}

function field(label: string, control: HTMLElement, ...more: readonly Child[]): HTMLElement {
  control.id = freshID()
  return make(
    'div',
    { class: 'pg-field' },
    make('label', { for: control.id }, label),
    control,
    ...more,
  )
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error)

/**
 * Puts the playground into an element. Returns a function that removes it. Nothing is sent: after
 * the page has loaded, the playground works without a network.
 */
export function mountPlayground(element: HTMLElement): () => void {
  const playground = new Playground()
  element.replaceChildren(playground.root)
  return () => {
    playground.end()
    playground.root.remove()
  }
}

class Playground {
  readonly root: HTMLElement
  readonly #text = make('textarea', {
    rows: '5',
    spellcheck: 'false',
    autocomplete: 'off',
    autocapitalize: 'off',
    placeholder: '0x0009…',
  })
  readonly #examples = make('select')
  readonly #exampleNote = make('p', { class: 'pg-note' })
  readonly #signers = make('select')
  readonly #signersNote = make('p', { class: 'pg-note' })
  readonly #ownSigners = make('textarea', {
    rows: '4',
    spellcheck: 'false',
    autocomplete: 'off',
    placeholder: '{ "signers": ["0x…", "0x…", "0x…", "0x…"], "f": 1 }',
  })
  readonly #status = make('p', { role: 'status', class: 'pg-status' })
  readonly #result = make('div', { class: 'pg-result' })
  readonly #verdicts = import('./verdicts.js')
  #input: Input = { kind: 'nothing' }
  /** Which report of the input is shown. */
  #index = 0
  #decimals: number | undefined
  /** Ends the work for what is no longer shown. */
  #work = new AbortController()
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor() {
    this.root = make('div', { class: 'pg' }, this.#inputForm(), this.#signersForm())
    this.root.append(this.#status, this.#result)
    this.#acceptDrops()
    // The modules that verify are loaded now, so that the page asks for nothing later on.
    const [first] = given.examples
    const [set] = given.signers
    this.#verdicts
      .then(({ verify }) => {
        const input = readInput(first?.text ?? '')
        if (input.kind !== 'reports' || set === undefined) return undefined
        return verify(input.reports[0] as GivenReport, set.sets)
      })
      .then(
        () => this.root.setAttribute('data-ready', 'true'),
        error => this.#say(`Signatures can’t be checked here: ${messageOf(error)}`),
      )
  }

  end(): void {
    clearTimeout(this.#timer)
    this.#work.abort()
  }

  #inputForm(): HTMLElement {
    const file = make('input', {
      type: 'file',
      accept: '.json,.txt,.hex,application/json,text/plain',
    })
    const hint = make(
      'p',
      { id: freshID(), class: 'pg-note' },
      'The hexadecimal digits of fullReport, the JSON of the REST API, or a proof file. You can drop a file anywhere here. Nothing leaves this page.',
    )
    this.#text.setAttribute('aria-describedby', hint.id)
    this.#text.maxLength = MAX_TEXT + 1
    const clear = make('button', { type: 'button' }, 'Clear')
    this.#examples.append(
      make('option', { value: '' }, 'Choose an example…'),
      ...given.examples.map(({ name }, index) => make('option', { value: String(index) }, name)),
    )
    this.#text.addEventListener('input', () => {
      this.#leaveExample()
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#read(), PAUSE)
    })
    this.#examples.addEventListener('change', () => {
      const example = given.examples[Number(this.#examples.value || Number.NaN)]
      this.#exampleNote.textContent = example?.note ?? ''
      this.#put(example?.text ?? '')
    })
    file.addEventListener('change', () => {
      void this.#open(file.files)
      file.value = ''
    })
    clear.addEventListener('click', () => {
      this.#leaveExample()
      this.#put('')
      this.#text.focus()
    })
    return make(
      'section',
      { class: 'pg-card', 'aria-label': 'Input' },
      field('Report or proof', this.#text, hint),
      make(
        'div',
        { class: 'pg-row' },
        field('Example', this.#examples),
        field('File', file),
        make('div', { class: 'pg-field pg-end' }, clear),
      ),
      this.#exampleNote,
    )
  }

  #signersForm(): HTMLElement {
    this.#signers.append(
      make('option', { value: '' }, 'None: signers are not checked'),
      ...given.signers.map(({ name }, index) => make('option', { value: String(index) }, name)),
      make('option', { value: 'own' }, 'A list of your own'),
    )
    this.#ownSigners.maxLength = MAX_SIGNERS_TEXT
    const own = field('Signers as JSON', this.#ownSigners)
    own.hidden = true
    this.#signers.addEventListener('change', () => {
      own.hidden = this.#signers.value !== 'own'
      this.#signersNote.textContent =
        given.signers[Number(this.#signers.value || Number.NaN)]?.note ?? ''
      this.#show()
    })
    this.#ownSigners.addEventListener('input', () => {
      clearTimeout(this.#timer)
      this.#timer = setTimeout(() => this.#show(), PAUSE)
    })
    own.append(
      paragraph(
        'The file of --signers: one or several { signers, f, configDigest?, activeFrom?, activeUntil? }.',
        'pg-note',
      ),
    )
    return make(
      'section',
      { class: 'pg-card', 'aria-label': 'Signers' },
      field('Signers of the network', this.#signers),
      this.#signersNote,
      own,
    )
  }

  #acceptDrops(): void {
    const { root } = this
    const mark = (isOver: boolean) => (event: DragEvent) => {
      event.preventDefault()
      root.classList.toggle('pg-over', isOver)
    }
    root.addEventListener('dragover', mark(true))
    root.addEventListener('dragleave', mark(false))
    root.addEventListener('drop', event => {
      mark(false)(event)
      const { files = null } = event.dataTransfer ?? {}
      this.#leaveExample()
      if (files !== null && files.length > 0) void this.#open(files)
      else this.#put(event.dataTransfer?.getData('text/plain') ?? '')
    })
  }

  async #open(files: FileList | null): Promise<void> {
    const [file] = files ?? []
    if (file === undefined) return
    this.#leaveExample()
    if (file.size > MAX_TEXT) return this.#fail(`The file has more than ${MAX_TEXT} bytes.`)
    try {
      this.#put(await file.text())
    } catch (error) {
      this.#fail(`The file can’t be read: ${messageOf(error)}`)
    }
  }

  #leaveExample(): void {
    this.#examples.value = ''
    this.#exampleNote.textContent = ''
  }

  #put(text: string): void {
    this.#text.value = text.slice(0, MAX_TEXT + 1)
    this.#read()
  }

  #fail(message: string): void {
    this.#text.value = ''
    this.#input = { kind: 'error', message }
    this.#show()
  }

  #read(): void {
    clearTimeout(this.#timer)
    this.#input = readInput(this.#text.value)
    this.#index = 0
    this.#decimals = undefined
    this.#show()
  }

  /** Says something to screen readers, and shows it above the result. */
  #say(text: string): void {
    if (this.#status.textContent !== text) this.#status.textContent = text
  }

  /** Shows the input anew. What takes long comes when it is there. */
  #show(): void {
    this.#work.abort()
    this.#work = new AbortController()
    this.root.removeAttribute('data-done')
    const input = this.#input
    if (input.kind === 'nothing') {
      this.#result.replaceChildren()
      this.#say('')
      return
    }
    if (input.kind === 'error') {
      this.#result.replaceChildren(
        make('h2', {}, 'Input'),
        verdict('bad', 'This can’t be read', paragraph(input.message)),
      )
      this.#say('The input can’t be read.')
      this.root.setAttribute('data-done', 'true')
      return
    }
    const { signal } = this.#work
    const shown =
      input.kind === 'proof' ? this.#showProof(input, signal) : this.#showReports(input, signal)
    shown
      .catch(error => signal.aborted || this.#say(messageOf(error)))
      .finally(() => signal.aborted || this.root.setAttribute('data-done', 'true'))
  }

  /** The signers that were chosen; undefined if none were. Throws if the list is no JSON. */
  #chosenSigners(): SignerSets | undefined {
    const { value } = this.#signers
    if (value === '') return undefined
    if (value !== 'own') return given.signers[Number(value)]?.sets
    const text = this.#ownSigners.value.trim()
    if (text === '') return undefined
    try {
      return JSON.parse(text) as SignerSets
    } catch (error) {
      throw new Error(`the list of signers is not JSON: ${messageOf(error)}`)
    }
  }

  async #showReports(
    { reports, more }: Extract<Input, { kind: 'reports' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const report = reports[this.#index] as GivenReport
    const inspection = inspectReport(report.fullReport)
    const { feedID, version, refusal, problems, parts } = inspection
    const feed = feedID === undefined ? undefined : findFeed(feedID)
    const decimals = this.#decimals ?? feed?.decimals ?? DEFAULT_DECIMALS
    const envelope = contradictions(report, name => parts.find(part => part.name === name)?.value)

    const isGood = refusal === undefined && envelope.length === 0
    const named = feed === undefined ? '' : `, ${feed.name}`
    const title = `Report of version ${version ?? 'unknown'}${named}`
    const signatures = verdict('open', 'Signatures', paragraph('Recovering the signers…'))
    const view = new PartsView(inspection, decimals, value => {
      this.#decimals = value
      this.#show()
    })
    this.#result.replaceChildren(
      ...(reports.length > 1 || more > 0 ? [this.#chooser(reports, more)] : []),
      make('h2', {}, title),
      make(
        'div',
        { class: 'pg-verdicts' },
        verdict(
          isGood ? 'good' : 'bad',
          refusal !== undefined ? 'Damaged' : isGood ? 'Well formed' : 'Envelope and report differ',
          refusal === undefined
            ? paragraph('The library decodes it: every byte is where the encoding wants it.')
            : paragraph(refusal),
          envelope.length > 0 ? list(envelope) : undefined,
          problems.length > 0 ? view.problems() : undefined,
        ),
        signatures,
      ),
      view.root,
    )
    this.#say(`${title}: ${isGood ? 'well formed' : 'damaged'}.`)

    const { recoverAddresses, verify } = await this.#verdicts
    if (signal.aborted) return
    if (refusal !== undefined && problems.some(({ text }) => !text.includes('decoder'))) {
      return signatures.replaceWith(
        verdict(
          'open',
          'Not checked',
          paragraph('The signatures of a damaged report are not checked.'),
        ),
      )
    }
    const recovered = recoverAddresses(inspection)
    let signers: SignerSets | undefined
    let outcome: Verification | Error | undefined
    try {
      signers = this.#chosenSigners()
      if (signers !== undefined) outcome = await verify(report, signers)
    } catch (error) {
      outcome = error as Error
    }
    if (signal.aborted) return
    signatures.replaceWith(signaturesVerdict(recovered, signers, outcome))
    const said =
      outcome === undefined ? 'not checked' : outcome instanceof Error ? 'rejected' : 'verified'
    this.#say(`${title}: ${isGood ? 'well formed' : 'damaged'}. Signatures: ${said}.`)
  }

  /** Chooses among several reports. */
  #chooser(reports: readonly GivenReport[], more: number): HTMLElement {
    const select = make('select')
    reports.forEach(({ feedID, observationsTimestamp }, index) => {
      const facts = [feedID?.slice(0, 10), observationsTimestamp].filter(each => each !== undefined)
      const text = [`${index + 1} of ${reports.length}`, ...facts].join(' · ')
      select.append(make('option', { value: String(index) }, text))
    })
    select.value = String(this.#index)
    select.addEventListener('change', () => {
      this.#index = Number(select.value)
      this.#show()
      // The element was made anew.
      this.#result.querySelector('select')?.focus()
    })
    return field(
      'Report of the list',
      select,
      more > 0 ? paragraph(`${more} further reports are left out.`, 'pg-note') : undefined,
    )
  }

  async #showProof(
    { text, proof }: Extract<Input, { kind: 'proof' }>,
    signal: AbortSignal,
  ): Promise<void> {
    const reports = Array.isArray(proof.reports) ? proof.reports : []
    const open = make('button', { type: 'button' }, 'Look at its reports')
    open.addEventListener('click', () => {
      this.#leaveExample()
      this.#put(JSON.stringify(reports, null, 1))
    })
    const outcome = verdict('open', 'Checking…')
    this.#result.replaceChildren(
      make('h2', {}, 'Proof'),
      outcome,
      claimTable(proof, reports.length),
      ...(reports.length > 0 ? [open] : []),
    )
    this.#say('A proof: checking.')
    const { check } = await this.#verdicts
    try {
      const signers = this.#chosenSigners()
      if (signers === undefined) {
        outcome.replaceWith(
          verdict(
            'open',
            'Not checked',
            paragraph('Choose the signers of the network. Without them a proof proves nothing.'),
          ),
        )
        return this.#say('A proof. Not checked: no signers are chosen.')
      }
      const checked = await check(text, signers, signal)
      if (signal.aborted) return
      outcome.replaceWith(...proofVerdict(checked))
      this.#say(`A proof of ${checked.reports} reports. The check passed.`)
    } catch (error) {
      if (signal.aborted) return
      const reason = (error as { reason?: unknown }).reason
      outcome.replaceWith(
        verdict(
          'bad',
          typeof reason === 'string' ? `Refused: ${reason}` : 'Not checked',
          paragraph(messageOf(error)),
        ),
      )
      this.#say('A proof. The check failed.')
    }
  }
}

/** What is known of the signatures of a report. */
function signaturesVerdict(
  recovered: readonly Recovered[],
  signers: SignerSets | undefined,
  outcome: Verification | Error | undefined,
): HTMLElement {
  const sets = signers === undefined ? [] : [signers].flat()
  const known = new Set(
    sets
      .flatMap(set => (Array.isArray(set?.signers) ? set.signers : []))
      .map(each => String(each).toLowerCase()),
  )
  const rows = recovered.map((each, index) => {
    if ('problem' in each) return make('li', {}, `Signature ${index}: ${each.problem}`)
    const mark =
      signers === undefined ? '' : known.has(each.address) ? 'in the list' : 'not in the list'
    return make(
      'li',
      { 'data-known': signers === undefined ? undefined : String(known.has(each.address)) },
      hidden(`Signature ${index} is by `),
      make('code', {}, each.address),
      mark === '' ? undefined : make('span', { class: 'pg-mark' }, ` ${mark}`),
    )
  })
  const addresses = make('ol', { class: 'pg-addresses' }, ...rows)
  if (outcome === undefined)
    return verdict(
      'open',
      'Signers not checked',
      paragraph(
        'The signatures are by these addresses. Whether they are the network’s is not known: choose its signers above.',
      ),
      addresses,
    )
  if (outcome instanceof Error) {
    const { reason } = outcome as { reason?: unknown }
    return verdict(
      'bad',
      typeof reason === 'string' ? `Not verified: ${reason}` : 'Signers not checked',
      paragraph(outcome.message),
      addresses,
    )
  }
  return verdict(
    'good',
    'Verified',
    paragraph(
      `${outcome.signers.length} of the signers you chose have signed, and ${outcome.f + 1} are needed. This says nothing of how fresh the report is.`,
    ),
    addresses,
  )
}

const textOf = (value: unknown): string =>
  (typeof value === 'string' ? value : (JSON.stringify(value) ?? '')).slice(0, 400)

/** What a proof claims, as it says itself. */
function claimTable(proof: Record<string, unknown>, reports: number): HTMLElement {
  const claim = typeof proof.claim === 'object' && proof.claim !== null ? proof.claim : {}
  const missing = Array.isArray(proof.missing) ? proof.missing : []
  const rows: (readonly [string, unknown])[] = [
    ['feedID', proof.feedID],
    ...Object.entries(claim).slice(0, 12),
    ['reports', reports],
    ['missing ranges', missing.length === 0 ? 'none' : missing.slice(0, 20)],
  ]
  return make(
    'section',
    { class: 'pg-card' },
    make('h3', {}, 'What it claims'),
    make(
      'dl',
      { class: 'pg-claim' },
      ...rows.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, textOf(value))]),
    ),
  )
}

/** What a proof shows, what it takes for granted, and what it can't show. */
function proofVerdict(checked: CheckedProof): readonly HTMLElement[] {
  const { proved, assumed, unproved, isComplete } = checked
  const group = (level: Level, title: string, sentences: readonly string[]): HTMLElement =>
    verdict(level, title, list(sentences))
  return [
    make(
      'div',
      { class: 'pg-verdicts' },
      group(isComplete ? 'good' : 'warning', 'Proved', proved),
      group('open', 'Assumed', assumed),
      group('open', 'Not proved', unproved),
    ),
  ]
}

const titles: Readonly<Record<Group, string>> = {
  fields: 'Signed fields',
  context: 'Report context',
  signatures: 'Signatures',
  layout: 'Layout of the encoding',
}

/** The parts of a report beside its bytes. The part under the pointer or the focus is marked in both. */
class PartsView {
  readonly root: HTMLElement
  readonly #inspection: Inspection
  readonly #buttons: HTMLButtonElement[] = []
  readonly #items = new Map<Part, HTMLElement>()
  readonly #words: HTMLElement[] = []
  readonly #hex: HTMLElement

  constructor(inspection: Inspection, decimals: number, setDecimals: (decimals: number) => void) {
    this.#inspection = inspection
    const hexTitle = make('h3', { id: freshID() }, 'Bytes')
    this.#hex = make('ol', {
      class: 'pg-hex',
      tabindex: '0',
      'aria-labelledby': hexTitle.id,
    })
    this.#hex.append(...this.#rows())
    const groups = (Object.keys(titles) as Group[]).map(group =>
      this.#group(group, decimals, group === 'fields' ? setDecimals : undefined),
    )
    this.root = make(
      'div',
      { class: 'pg-parts' },
      make('div', { class: 'pg-groups' }, ...groups),
      make('section', { class: 'pg-card pg-bytes' }, hexTitle, this.#hex),
    )
  }

  /** The mistakes, each a button that leads to its part. */
  problems(): HTMLElement {
    const { problems, parts } = this.#inspection
    const items = problems.map(({ at, text }) => {
      const part = parts.find(each => each.at <= at && at < each.at + each.length)
      const place = make('button', { type: 'button', class: 'pg-link' }, `byte ${at}`)
      place.addEventListener('click', () => {
        const item = part === undefined ? undefined : this.#items.get(part)
        const button = item?.querySelector('button')
        if (button === null || button === undefined) return this.#hex.focus()
        if (button.getAttribute('aria-expanded') === 'false') button.click()
        button.focus()
      })
      return make('li', {}, place, `: ${text}`)
    })
    return make('ol', { class: 'pg-problems', 'aria-label': 'Mistakes' }, ...items)
  }

  #group(
    group: Group,
    decimals: number,
    setDecimals: ((decimals: number) => void) | undefined,
  ): HTMLElement {
    const parts = this.#inspection.parts.filter(part => part.group === group)
    const title = make('h3', { id: freshID() }, titles[group])
    const head = make('div', { class: 'pg-head' }, title)
    if (setDecimals !== undefined && parts.some(({ unit }) => unit === 'price'))
      head.append(this.#decimalsField(decimals, setDecimals))
    return make(
      'section',
      { class: 'pg-card' },
      head,
      make(
        'ol',
        { class: 'pg-items', 'aria-labelledby': title.id },
        ...parts.map(part => this.#item(part, decimals)),
      ),
    )
  }

  #decimalsField(decimals: number, setDecimals: (decimals: number) => void): HTMLElement {
    const input = make('input', { type: 'number', min: '0', max: '36', value: String(decimals) })
    input.addEventListener('change', () => {
      const value = Number(input.value)
      if (Number.isInteger(value) && value >= 0 && value <= 36) setDecimals(value)
    })
    const wrapped = field('Decimals of prices', input)
    wrapped.title = 'A report does not say how many decimals its prices have: most have 18, some 8.'
    return wrapped
  }

  #item(part: Part, decimals: number): HTMLElement {
    const { name, type, at, length, value, meaning, problem, unit } = part
    const { feedID, fullReport } = this.#inspection
    const shown = showValue(value, unit, feedID, decimals)
    const digits = fullReport.slice(2 + 2 * at, 2 + 2 * Math.min(at + length, at + 8 * WORD))
    const bytes = make('code', { id: freshID(), class: 'pg-raw' }, digits)
    bytes.hidden = true
    const button = make(
      'button',
      { type: 'button', 'aria-expanded': 'false', 'aria-controls': bytes.id },
      name,
      hidden(': its bytes'),
    )
    const place = length === 0 ? 'not there' : `bytes ${at}–${at + length - 1}`
    const item = make(
      'li',
      { 'data-name': name, 'data-at': String(at), 'data-wrong': problem && 'true' },
      make(
        'div',
        { class: 'pg-name' },
        button,
        make('span', { class: 'pg-type' }, hidden('type '), type),
        make('span', { class: 'pg-at' }, place),
      ),
      make('code', { class: 'pg-value' }, value === '' ? '—' : value),
      shown === undefined ? undefined : make('span', { class: 'pg-shown' }, shown),
      meaning === '' ? undefined : paragraph(meaning, 'pg-meaning'),
      problem === undefined ? undefined : paragraph(`Wrong: ${problem}.`, 'pg-wrong'),
      bytes,
    )
    button.addEventListener('click', () => {
      bytes.hidden = !bytes.hidden
      button.setAttribute('aria-expanded', String(!bytes.hidden))
    })
    button.addEventListener('keydown', event => this.#move(event, button))
    button.addEventListener('focus', () => this.#mark(part, true))
    item.addEventListener('mouseenter', () => this.#mark(part, true))
    item.addEventListener('mouseleave', () => this.#mark(undefined, false))
    button.addEventListener('blur', () => this.#mark(undefined, false))
    this.#buttons.push(button)
    this.#items.set(part, item)
    return item
  }

  /** The arrows go from part to part. */
  #move(event: KeyboardEvent, from: HTMLButtonElement): void {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0
    const next = step === 0 ? undefined : this.#buttons[this.#buttons.indexOf(from) + step]
    if (next === undefined) return
    event.preventDefault()
    next.focus()
  }

  #rows(): readonly HTMLElement[] {
    const { fullReport, parts } = this.#inspection
    const digits = fullReport.slice(2, 2 + 2 * MAX_BYTES)
    const count = Math.ceil(digits.length / (2 * WORD))
    return Array.from({ length: count }, (_, index) => {
      const at = WORD * index
      const text = digits.slice(2 * at, 2 * (at + WORD))
      const part = parts.find(each => each.at <= at && at < each.at + each.length)
      const clusters = text.match(new RegExp(`.{1,${CLUSTER}}`, 'gs')) ?? []
      const row = make(
        'li',
        { 'data-wrong': part?.problem && 'true' },
        make('span', { class: 'pg-offset' }, String(at).padStart(4, ' ')),
        make('code', {}, clusters.join(' ')),
      )
      row.addEventListener('mouseenter', () => this.#mark(part, false))
      row.addEventListener('mouseleave', () => this.#mark(undefined, false))
      this.#words.push(row)
      return row
    })
  }

  /** Marks a part and its bytes, and nothing else; scrolls the bytes there where asked to. */
  #mark(part: Part | undefined, scrolls: boolean): void {
    for (const [each, item] of this.#items) item.classList.toggle('pg-on', each === part)
    this.#words.forEach((row, index) => {
      const at = WORD * index
      const isOn = part !== undefined && part.at <= at && at < part.at + part.length
      row.classList.toggle('pg-on', isOn)
    })
    const first = part === undefined ? undefined : this.#words[Math.floor(part.at / WORD)]
    if (!scrolls || first === undefined || part?.length === 0) return
    // Scrolls the list alone, not the page.
    const top = first.offsetTop - this.#hex.offsetTop
    const isSeen =
      top >= this.#hex.scrollTop &&
      top + first.offsetHeight <= this.#hex.scrollTop + this.#hex.clientHeight
    if (!isSeen) this.#hex.scrollTop = top - this.#hex.clientHeight / 3
  }
}
