import type { BaseFields } from '../core/decoder.js'

/** A decoded report as text, a line a field; values are not scaled. */
export function formatReport(report: BaseFields & { readonly version: string }): string {
  const names = Object.keys(report)
  const width = Math.max(...names.map(name => name.length))
  return Object.entries(report)
    .map(([name, value]) => `${name.padEnd(width)}  ${String(value)}`)
    .join('\n')
}
