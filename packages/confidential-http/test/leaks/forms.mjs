/** Bytes in a row of a secret that count as a leak: each part of it is searched for by itself. */
const PART = 12

/** Digits as they may stand somewhere: as they are, in base64 at whichever place, as dumps and URLs show bytes, in UTF-16. */
function formsOfPart(digits) {
  const base64 = ['', '.', '..'].map(before =>
    btoa(before + digits)
      .slice(before === '' ? 0 : 4)
      .replace(/.{0,3}=*$/, ''),
  )
  const hex = Buffer.from(digits).toString('hex')
  const pairs = hex.match(/../g)
  const texts = [digits, ...base64, hex, hex.toUpperCase(), pairs.join(' '), `%${pairs.join('%')}`]
  return [
    ...texts.map(text => Buffer.from(text)),
    Buffer.from(digits, 'utf16le'),
    Buffer.from([...digits].reverse().join('')),
  ]
}

/** What is searched for of a secret of hexadecimal digits, which no escaping changes. */
export function formsOf(secret) {
  const parts = secret.match(new RegExp(`.{${PART}}`, 'g'))
  return parts.flatMap(formsOfPart)
}

/** How many of the forms are in one of the pieces. */
export function countHits(pieces, forms) {
  return forms.filter(form => pieces.some(piece => piece.includes(form))).length
}
