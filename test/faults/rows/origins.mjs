// A list of origins that changes, or that means harm.
const listed = ids => ({
  status: 200,
  method: 'HEAD',
  body: '',
  times: 100,
  headers: { 'x-cll-available-origins': ids },
})

export default [
  {
    row: '27a',
    fault: 'the service lists 40 origins',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: { mostSockets: 20 },
    seconds: 6,
    prepare: ({ engine }) =>
      engine.fail(
        listed(`{${Array.from({ length: 40 }, (_, i) => String(i + 1).padStart(3, '0'))}}`),
      ),
    run: ({ pause }) => pause(5000),
  },
  {
    row: '27b',
    fault: 'the list of origins is empty',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: {},
    seconds: 4,
    prepare: ({ engine }) => engine.fail(listed('{}')),
    run: ({ pause }) => pause(3000),
  },
  {
    row: '27c',
    fault: 'the list of origins has one valid id, and invalid ids (blanks, quotes, 4 kB, `../`)',
    engine: { origins: 2 },
    config: { haMode: true },
    bound: {},
    seconds: 4,
    prepare: ({ engine }) => engine.fail(listed(`{001,a b,"x",${'9'.repeat(4000)},../..,x: y}`)),
    run: ({ pause }) => pause(3000),
  },
  {
    row: '27d',
    fault: 'origin 003 joins the list; 40 s later, origin 002 leaves for good',
    engine: { origins: 3 },
    config: { haMode: true },
    bound: { origins: '001 003' },
    seconds: 80,
    prepare: ({ engine }) => engine.origins[2].leave(),
    async run({ engine, begin, measured, pause }) {
      begin()
      engine.origins[2].join()
      // A reconnection has the list looked at again.
      engine.origins[0].disconnect()
      await pause(40_000)
      engine.origins[1].leave()
      await engine.origins[1].kill()
      await pause(35_000)
      const open = engine.origins.filter(({ connections }) => connections > 0)
      measured.origins = open.map(({ id }) => id).join(' ')
    },
  },
]
