import work from './work.cjs'

await work.work(name => import(name))
