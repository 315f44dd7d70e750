/** Longer than an address. Ids of feeds have 0x in front. */
const digits = /(?<![0-9a-fx])[0-9a-f]{41,}/gi
const unknownOption = /(unknown option '[^=']*=).*'/s
/** An unknown option or command as long as a key. */
const unknown = /(unknown (?:option|command) ')[^']{40,}'/s

/** The text of an error, which may repeat what was given on the command line, without what may be a key or its value. */
export function hideKeys(text: string): string {
  return text
    .replace(unknownOption, "$1…'")
    .replace(digits, found => `[${found.length} hexadecimal digits]`)
    .replace(unknown, "$1…'")
}
