// The steps as a program: the URL of its world is the only argument, and it prints a line of JSON per step.
import { argv } from 'node:process'
import { runSteps } from './steps.mjs'

await runSteps(
  argv[2],
  entry => import(entry),
  result => console.log(JSON.stringify(result)),
)
