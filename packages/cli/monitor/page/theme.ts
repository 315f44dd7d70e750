import { byID, make, setText } from './dom.js'
import { recall, remember } from './storage.js'

type Theme = 'light' | 'dark'

const systemIsDark: MediaQueryList = matchMedia('(prefers-color-scheme: dark)')

/**
 * Follows the theme of the system until the user chooses a theme with the button. Calls `onChange`
 * at the start and after each change.
 */
export function startTheme(onChange: () => void): void {
  const button = byID<HTMLButtonElement>('theme')
  const { documentElement: root } = document

  const system = (): Theme => (systemIsDark.matches ? 'dark' : 'light')
  const current = (): Theme => (root.dataset.theme as Theme | undefined) ?? system()

  function show(): void {
    setText(button, current() === 'dark' ? 'Light' : 'Dark')
    onChange()
  }

  const chosen = recall('localStorage', 'theme')
  if (chosen === 'light' || chosen === 'dark') root.dataset.theme = chosen
  button.addEventListener('click', () => {
    const next: Theme = current() === 'dark' ? 'light' : 'dark'
    if (next === system()) {
      delete root.dataset.theme
      remember('localStorage', 'theme', undefined)
    } else {
      root.dataset.theme = next
      remember('localStorage', 'theme', next)
    }
    show()
  })
  systemIsDark.addEventListener('change', show)
  show()
}

const probe: HTMLElement = document.body.appendChild(make('i', 'hidden'))
probe.ariaHidden = 'true'

/**
 * Returns the current value of a colour of the theme, by the name of its CSS variable. A canvas
 * can't read CSS variables.
 */
export function colour(name: string): string {
  probe.style.color = `var(--${name})`
  return getComputedStyle(probe).color
}
