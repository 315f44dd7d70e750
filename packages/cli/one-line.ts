/** Replaces the options of the library in an error's advice by those of the command. */
export function inOptions(text: string): string {
  return text.replace(/\btls\.(ca|cert|key)\b/g, '--$1')
}

/** Puts the text of an error into one line, without control characters and possible keys. */
export function inOneLine(text: string): string {
  // A line in brackets belongs to the line before it, so no semicolon separates them.
  const line = text.trim().replace(/\s*\n\s*(\()?/g, (_, bracket) => (bracket ? ' (' : '; '))
  // Others may have written a part of it.
  return hideKeys(inOptions(line)).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, '?')
}

/**
 * Matches digits of a possible key: more digits than an address has. Feed ids begin with 0x and do
 * not match.
 */
const digits = /(?<![0-9a-fx])[0-9a-f]{41,}/gi
const unknownOption = /(unknown option '[^=']*=).*'/s
/** Matches an unknown option or command that is as long as a key. */
const unknown = /(unknown (?:option|command) ')[^']{40,}'/s

/** Removes possible keys from the text of an error, which may quote the command line. */
export function hideKeys(text: string): string {
  return text
    .replace(unknownOption, "$1…'")
    .replace(digits, found => `[${found.length} hexadecimal digits]`)
    .replace(unknown, "$1…'")
}
