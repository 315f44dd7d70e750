type Version = readonly [major: number, minor: number, patch: number]

/** True for a version in a range as this package writes them: `>=20.0.0`, `^5.7.0 || ^6.0.0`, `*`. */
export function satisfies(version: string, range: string): boolean {
  const given = parse(version)
  return range.split('||').some(function holds(rule) {
    const text = rule.trim()
    if (text === '*') return true
    const wanted = parse(text)
    return !isBefore(given, wanted) && (!text.startsWith('^') || given[0] === wanted[0])
  })
}

function parse(text: string): Version {
  const [, major = 0, minor = 0, patch = 0] = /(\d+)(?:\.(\d+))?(?:\.(\d+))?/.exec(text) ?? []
  return [Number(major), Number(minor), Number(patch)]
}

function isBefore(one: Version, other: Version): boolean {
  const at = one.findIndex((part, index) => part !== other[index])
  return at >= 0 && (one[at] as number) < (other[at] as number)
}
