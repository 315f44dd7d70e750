import pc from 'picocolors'

const { stdout, stderr, env } = process

/** True where a terminal may show colours, whichever of the two outputs it is: what is written to the other has them taken out. */
const isColoured = !env.NO_COLOR && env.TERM !== 'dumb' && Boolean(stdout.isTTY || stderr.isTTY)
const colours = pc.createColors(isColoured)

type Colour = (text: string) => string
export const bold: Colour = colours.bold
export const dim: Colour = colours.dim
export const red: Colour = colours.red
export const yellow: Colour = colours.yellow
export const green: Colour = colours.green
