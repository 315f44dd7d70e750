/** The element of the page with this id. */
export function byID<Type extends HTMLElement = HTMLElement>(id: string): Type {
  return document.getElementById(id) as Type
}

/** Makes an element with a class and children. A string becomes text, never HTML. */
export function make<Name extends keyof HTMLElementTagNameMap>(
  name: Name,
  className = '',
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Name] {
  const element = document.createElement(name)
  if (className !== '') element.className = className
  element.append(...children)
  return element
}

/** Sets the text of an element, unless the element has this text already. */
export function setText(element: Node, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

/** Sets an attribute `data-…`, unless it has this value already. */
export function setData(element: HTMLElement, name: string, value: string): void {
  if (element.dataset[name] !== value) element.dataset[name] = value
}

const grouped = new Intl.NumberFormat('en', { maximumFractionDigits: 1 })

/** Formats a count with separated thousands: `12,345`. */
export const formatCount = (value: number): string => grouped.format(value)

/** Formats a time of day, to the second. */
export const formatTime = (at: number): string => new Date(at).toTimeString().slice(0, 8)

const zoned = new Intl.DateTimeFormat('en', { timeZoneName: 'short' })

/** The zone of the browser at a time: `UTC`, `GMT+1`. */
export function zoneOf(at: number): string {
  return zoned.formatToParts(at).find(({ type }) => type === 'timeZoneName')?.value ?? ''
}

/** Formats a time of day with its milliseconds. */
export const formatExactTime = (at: number): string =>
  `${formatTime(at)}.${String(new Date(at).getMilliseconds()).padStart(3, '0')}`

/** Formats a time with its zone, and with its date if it is not of today. */
export function formatMoment(at: number, now: number): string {
  const date = new Date(at)
  const day = date.toDateString() === new Date(now).toDateString() ? '' : `${isoDate(date)} `
  return `${day}${formatTime(at)} ${zoneOf(at)}`
}

function isoDate(date: Date): string {
  const two = (value: number): string => String(value).padStart(2, '0')
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`
}

/** Formats milliseconds in a suitable unit: `0.8 ms`, `240 ms`, `1.5 s`. */
export function formatMs(ms: number): string {
  if (ms < 10) return `${ms.toFixed(1)} ms`
  if (ms < 1000) return `${Math.round(ms)} ms`
  return `${(ms / 1000).toFixed(1)} s`
}

/** Formats an age in whole units, so that the text does not change too often. */
export function formatAge(ms: number): string {
  if (ms < 1000) return '< 1 s'
  const seconds = Math.floor(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`
  return `${Math.floor(seconds / 3600)} h`
}
