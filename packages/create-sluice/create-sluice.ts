#!/usr/bin/env node
import { fileURLToPath } from 'node:url'
import { run } from './program.js'

// The built program is dist/esm/create-sluice.js of the package.
const home = fileURLToPath(new URL('../..', import.meta.url))

const { stdin, stdout, stderr, env } = process
void run(process.argv.slice(2), { stdin, stdout, stderr, env, cwd: process.cwd() }, home).then(
  exitCode => {
    process.exitCode = exitCode
  },
)
