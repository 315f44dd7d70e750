export type { Candle, CandleInterval, CandleRange } from './candle.js'
