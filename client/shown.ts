/** The most characters of a text that others wrote. */
const MAX_SHOWN = 80

/** Returns a text of others without control characters, cut to its first characters. */
export function shown(text: string, max: number = MAX_SHOWN): string {
  const plain = text.slice(0, max).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
  return text.length > max ? `${plain}…` : plain
}

/** Quotes a text of others, so that nobody takes it for words of this library. */
export function quoted(text: string, max?: number): string {
  return JSON.stringify(shown(text, max))
}
