/** A row of CSV, as RFC 4180 has it, without its line break. */
export function csvRow(values: readonly (string | number)[]): string {
  return values
    .map(value => {
      const text = String(value)
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
    })
    .join(',')
}
