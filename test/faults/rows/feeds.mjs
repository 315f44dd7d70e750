// Many feeds, and feeds that come and go.
export default [
  {
    row: '37',
    fault:
      'the client streams 450 feeds, adds 50, and then removes 30, over as many connections as the length of the URLs requires',
    feeds: 500,
    subscribed: 450,
    bound: { attempts: 12, pages: 0 },
    seconds: 12,
    async run(world) {
      const { engine, client, isOurs, feeds, begin, pause } = world
      begin()
      if (isOurs) {
        const added = engine.feeds.slice(450)
        await client.ask('subscribe', { feeds: added }, 60_000)
        world.feeds = [...feeds, ...added]
        await pause(3000)
        const left = new Set(feeds.slice(0, 30))
        const at = Date.now()
        world.ignore = ({ feedID, publishedAt }) => left.has(feedID) && publishedAt > at - 50
        await client.ask('unsubscribe', { feeds: [...left] }, 60_000)
      }
      await pause(5000)
    },
  },
]
