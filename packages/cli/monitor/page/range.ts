import { type RangeName, ranges } from '../series.js'
import { make } from './dom.js'
import { recall, remember } from './storage.js'

const words: Readonly<Record<RangeName, string>> = {
  '5m': '5 min',
  '15m': '15 min',
  '1h': '1 h',
  '6h': '6 h',
}

/** The name of a range in words: `15 min`. */
export const rangeText = (range: RangeName): string => words[range]

/** The range that the charts show. */
export interface RangeChoice {
  readonly current: RangeName
}

/** Fills each `.ranges` of the page with a button for each range. The page remembers the choice. */
export function createRangeChoice(onChange: () => void): RangeChoice {
  const known = recall('localStorage', 'range')
  let current: RangeName =
    known !== undefined && Object.hasOwn(ranges, known) ? (known as RangeName) : '5m'
  const buttons = [...document.querySelectorAll('.ranges')].flatMap(place =>
    (Object.keys(ranges) as RangeName[]).map(range => {
      const button = make('button', '', words[range])
      button.type = 'button'
      button.addEventListener('click', () => {
        current = range
        remember('localStorage', 'range', range)
        show()
        onChange()
      })
      place.append(button)
      return { button, range }
    }),
  )
  function show(): void {
    for (const { button, range } of buttons) button.ariaPressed = String(range === current)
  }
  show()
  return {
    get current() {
      return current
    },
  }
}
