/** What the matrix does not show, and why. */
export const notShown = [
  { row: '10', what: 'an IPv6 address that swallows packets: there is none on loopback' },
  { row: '28', what: 'two origins that are one site: sluice does not look for that' },
  { row: '39', what: 'a day of it: `npm run faults -- soak`' },
]
