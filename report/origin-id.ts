/** The id in `wss://host#001`, where there is one. */
export function originIDOf(origin: string): string | undefined {
  const at = origin.indexOf('#')
  return at === -1 ? undefined : origin.slice(at + 1)
}
