export const dynamic = 'force-dynamic'
export { GET } from '../../../docs/route.js'
