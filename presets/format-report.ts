/**
 * A decoded report as text, a line a field; values are not scaled. The version is the report's own; the second argument
 * is there for programs that were written for another SDK.
 */
export function formatReport<Given extends { readonly version: string }>(
  report: Given,
  _version?: string,
): string {
  const names = Object.keys(report)
  const width = Math.max(...names.map(name => name.length))
  return Object.entries(report)
    .map(([name, value]) => `${name.padEnd(width)}  ${String(value)}`)
    .join('\n')
}
