import { answerLatest } from '../latest.js'

export const dynamic = 'force-dynamic'
export const GET = answerLatest
