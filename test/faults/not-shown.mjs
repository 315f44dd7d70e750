/** What the matrix does not show, and why. */
export const notShown = [
  { row: '10', what: 'an IPv6 address that drops packets, because loopback has no such address' },
  { row: '28', what: 'two origins that are one site, because sluice does not detect that' },
  { row: '39', what: 'a day of faults, which `npm run faults -- soak --minutes 1440` runs' },
]
