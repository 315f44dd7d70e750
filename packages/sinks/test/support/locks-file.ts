// Holds a database open until it is killed.
import { writeSync } from 'node:fs'
import { DuckDBInstance } from '@duckdb/node-api'

DuckDBInstance.create(process.argv[2]).then(
  instance => {
    writeSync(1, 'open\n')
    setInterval(() => instance, 1000)
  },
  error => writeSync(1, `failed ${error.message}\n`),
)
