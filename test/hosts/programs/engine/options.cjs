/** The options of the engine, in the configuration of either runner. */
module.exports = {
  feeds: ['0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'],
  history: 0,
}
