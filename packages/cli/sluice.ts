#!/usr/bin/env node
import { processIO } from './io.js'
import { run } from './program.js'

void run(process.argv.slice(2), processIO()).then(exitCode => {
  process.exitCode = exitCode
})
