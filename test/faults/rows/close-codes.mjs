// Connections that the service closes.
const codes = [1000, 1001, 1005, 1006, 1008, 1009, 1011, 1012, 1013, 1014, 4000, 4401]

export default [
  {
    row: '30',
    fault: `every 4 s, the service closes the connection with one of the codes ${codes.join(', ')}`,
    bound: { attempts: [codes.length, codes.length] },
    seconds: 4 * codes.length,
    async run({ engine, begin, pause }) {
      begin()
      for (const code of codes) {
        engine.disconnect(code)
        await pause(4000)
      }
    },
  },
  {
    row: '31',
    fault:
      'every 4 s for 60 s, the service closes the connection with 1000 (stands for every 20 s for 1 h)',
    feeds: 3,
    bound: { attempts: [15, 15], heapGrowthMB: 4 },
    seconds: 60,
    async run({ engine, begin, pause }) {
      begin()
      for (let times = 0; times < 15; times++) {
        engine.disconnect(1000)
        await pause(4000)
      }
    },
  },
]
