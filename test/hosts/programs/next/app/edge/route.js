import { answerLatest } from '../latest.js'

export const runtime = 'edge'
export const dynamic = 'force-dynamic'
export const GET = answerLatest
