import pc from 'picocolors'

const { stdout, stderr, env } = process

/**
 * True if standard output or standard error is a terminal that may show colours. If the other
 * output is not a terminal, its text is printed without the colours.
 */
const isColoured = !env.NO_COLOR && env.TERM !== 'dumb' && Boolean(stdout.isTTY || stderr.isTTY)
const colours = pc.createColors(isColoured)

type Colour = (text: string) => string
export const bold: Colour = colours.bold
export const dim: Colour = colours.dim
export const red: Colour = colours.red
export const yellow: Colour = colours.yellow
export const green: Colour = colours.green
