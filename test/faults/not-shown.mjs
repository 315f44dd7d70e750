/** What the matrix does not show, and why. */
export const notShown = [
  { row: '10', what: 'an IPv6 address that drops packets: loopback has none' },
  { row: '28', what: 'two origins that are one site: sluice does not detect that' },
  { row: '39', what: 'a day of faults: `npm run faults -- soak` does that with `--minutes 1440`' },
]
