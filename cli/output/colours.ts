import pc from 'picocolors'

/** Colours a text if the terminal can and NO_COLOR is not set. */
type Colour = (text: string) => string
export const bold: Colour = pc.bold
export const red: Colour = pc.red
export const yellow: Colour = pc.yellow
export const green: Colour = pc.green
