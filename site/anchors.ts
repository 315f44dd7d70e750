/** The anchor that GitHub makes of a heading, and so the site: `Nothing lost` is `nothing-lost`. */
export const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-')
