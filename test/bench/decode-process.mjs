// A process of its own that decodes, hex string to typed object, with each decoder in turns.

import { decodeReport as decodeOfficially } from '@chainlink/data-streams-sdk'
import { AbiCoder } from 'ethers'
import { decodeReport } from 'sluice'
import { decodeAbiParameters } from 'viem'
import { feedID, makeReport } from './frames.mjs'
import { fromSource } from './from-source.mjs'
import { answer } from './rpc.mjs'

const { reportSchema } = await fromSource('packages/engine/encode')

/**
 * How often each decodes in one batch, for half a millisecond or one: batches are short, so that all sides see the same of what
 * else the machine does.
 */
const BATCH = { ours: 1024, official: 4, viem: 16, ethers: 4 }
const BATCHES = 10

const outer = ['bytes32[3]', 'bytes', 'bytes32[]', 'bytes32[]', 'bytes32']
const parts = outer.map(type => ({ type }))

function toObject(fields, values) {
  const object = {}
  for (let index = 0; index < fields.length; index++) object[fields[index].name] = values[index]
  return object
}

function decodersOf(version) {
  const fields = reportSchema(version, 's')
  const types = fields.map(({ type }) => type)
  const coder = AbiCoder.defaultAbiCoder()
  return {
    ours: decodeReport,
    official: decodeOfficially,
    viem: fullReport =>
      toObject(fields, decodeAbiParameters(fields, decodeAbiParameters(parts, fullReport)[1])),
    ethers: fullReport => toObject(fields, coder.decode(types, coder.decode(outer, fullReport)[1])),
  }
}

/** Microseconds on a processor that one batch takes, with the collection of garbage that falls into it. */
function time(decode, reports, times) {
  const started = process.cpuUsage()
  for (let index = 0; index < times; index++) {
    const { fullReport, feedID } = reports[index % reports.length]
    decode(fullReport, feedID)
  }
  const { user, system } = process.cpuUsage(started)
  return user + system
}

let sides = []
let reports = []
let decoders = {}

answer({
  /** Makes reports of a version, and returns them, with the numbers that ethers finds in each. */
  prepare(given) {
    sides = given.sides
    const { version } = given
    const made = Array.from({ length: 64 }, (_, seed) =>
      makeReport({ id: feedID(seed, version), version, seed }),
    )
    // As an answer of the service brings them: strings of one piece.
    reports = JSON.parse(JSON.stringify(made))
    decoders = decodersOf(version)
    return reports.map(({ fullReport }) => ({
      fullReport,
      numbers: Object.values(decoders.ethers(fullReport))
        .filter(value => typeof value === 'bigint')
        .map(String),
    }))
  },
  /** The microseconds of processor time that each of the sides takes for a decode. */
  round() {
    const sums = Object.fromEntries(sides.map(side => [side, 0]))
    for (let batch = 0; batch < BATCHES; batch++)
      for (const side of sides) sums[side] += time(decoders[side], reports, BATCH[side])
    return Object.fromEntries(sides.map(side => [side, sums[side] / (BATCHES * BATCH[side])]))
  },
})
