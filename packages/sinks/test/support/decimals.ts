/** The integer of a decimal number with `digits` after the point. Throws if it has more. */
export function integerOf(text: string, digits: number): bigint {
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  if (whole === undefined) throw new Error(`${text} is no number`)
  if (/[1-9]/.test(fraction.slice(digits)))
    throw new Error(`${text} has more than ${digits} digits`)
  return BigInt(`${sign}${whole}${fraction.slice(0, digits).padEnd(digits, '0')}`)
}
