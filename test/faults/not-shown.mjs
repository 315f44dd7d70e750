/** What the matrix does not show, and why. */
export const notShown = [
  { row: '10', what: 'in which an IPv6 address drops packets: loopback has no such address' },
  { row: '28', what: 'in which two origins are one site: sluice does not detect this case' },
  { row: '39', what: 'a day of faults: `npm run faults -- soak --minutes 1440` runs this row' },
]
