// Opens the page of `sluice monitor` in a real browser: part of npm run browser. What it shows is held against the ledger of a
// local engine, its accessibility against axe-core.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { setTimeout as pause } from 'node:timers/promises'
import { startDataEngine } from '@sluice/engine'
import { NoChromium } from '../support/chromium.mjs'
import { openBrowser, until } from './devtools.mjs'
import { envOf, startMonitor } from './monitor-world.mjs'

/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

const ethUsd = '0x000359843a543ee2fe414dc14c7e7920ef10f4372990b79d6361cdc0dd1ba782'
/** A feed in milliseconds, whose reports tell of one that is missing. */
const fine = '0x10035a7b9c1d3e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7'
const others = Array.from({ length: 30 }, (_, index) => `0x0003${String(index).padStart(60, '0')}`)
const e18 = 10n ** 18n

const engine = await startDataEngine({
  feeds: [ethUsd, fine, ...others].map(feedID => ({ feedID, intervalMs: 0 })),
  origins: 2,
  history: 1,
})
let browser
let monitor

/** The texts of the cells of a table, by its rows. */
const cellsOf = table =>
  browser.evaluate(
    `[...document.querySelectorAll('#${table} tr')].map(row => [...row.cells].map(cell => cell.textContent))`,
  )
const textOf = id => browser.evaluate(`document.getElementById('${id}').textContent`)
const verdict = () => browser.evaluate(`document.getElementById('verdict').dataset.level`)
const facts = () =>
  browser.evaluate(`[...document.querySelectorAll('#facts li')].map(fact => fact.textContent)`)
const count = feedID => engine.ledger().filter(report => report.feedID === feedID).length - 1

async function openPage(url) {
  await browser.open('about:blank')
  await browser.open(url)
  await browser.until(`document.querySelector('#verdict') !== null`)
}

/** What axe-core finds wrong, in a line each. */
async function audit() {
  if (await browser.evaluate(`typeof axe === 'undefined'`)) await browser.evaluate(axe)
  return browser.evaluate(
    `axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      .then(({ violations }) => violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, any }) => id + ': ' + html.slice(0, 120) + ' ' + (any[0]?.message ?? ''))))`,
  )
}

/** Runs in the page: the contrast of texts in every state that they may have, by computed styles. */
function measureContrasts() {
  const channels = text => text.match(/[\d.]+/g).map(Number)
  const light = ([red, green, blue]) => {
    const [r, g, b] = [red, green, blue].map(value => {
      const share = value / 255
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const background = element => {
    const { backgroundColor } = getComputedStyle(element)
    const [, , , alpha = 1] = channels(backgroundColor)
    return alpha === 0 ? background(element.parentElement) : channels(backgroundColor)
  }
  const contrast = element => {
    const [one, other] = [channels(getComputedStyle(element).color), background(element)].map(light)
    return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05)
  }
  const all = []
  const measure = (holder, name, values, texts) => {
    const before = holder.dataset[name]
    for (const value of values) {
      holder.dataset[name] = value
      for (const text of texts)
        all.push({ value, text, ratio: contrast(document.querySelector(text)) })
    }
    holder.dataset[name] = before
  }
  const levels = ['starting', 'ok', 'degraded', 'down', 'lost']
  measure(document.querySelector('#verdict'), 'level', levels, ['#headline', '#facts li'])
  const states = ['live', 'stale', 'waiting', 'refused', 'lost']
  const [row] = document.querySelectorAll('#feed-rows tr')
  measure(row, 'state', states, ['#feed-rows tr .c-state'])
  measure(row.querySelector('.c-gaps'), 'some', ['true', 'false'], ['#feed-rows tr .c-gaps'])
  return all
}

/** Waits until what is read is what is expected, and otherwise says how they differ. */
const waitFor = async (what, read, expected) => {
  let last
  try {
    await until(async () => {
      last = await read()
      return JSON.stringify(last) === JSON.stringify(expected)
    }, what)
  } catch (error) {
    assert.deepEqual(last, expected, error.message)
  }
}

const checks = {
  async 'is all well once every feed has a report and every origin is open'() {
    await browser.until(`document.querySelectorAll('#origin-rows tr').length === 2`)
    await browser.until(
      `[...document.querySelectorAll('#origin-rows .c-state')].every(cell => cell.textContent === 'connected')`,
    )
    for (const feedID of [ethUsd, fine, ...others]) engine.publish(feedID, { price: e18 })
    await waitFor('the verdict', verdict, 'ok')
    assert.equal(await textOf('headline'), 'All is well')
    assert.deepEqual(await facts(), ['32 feeds, all live', '2 of 2 origins', 'no gaps'])
    assert.equal(await browser.evaluate('document.title'), '✓ 32 feeds, all live · sluice')
  },
  async 'shows the prices and counts of the ledger'() {
    const prices = { [ethUsd]: 3851_421_299n, [fine]: -37_630_000n }
    for (const [index, feedID] of others.entries()) prices[feedID] = BigInt(index) * 1_234_567n
    for (let round = 0; round < 3; round++)
      for (const [feedID, price] of Object.entries(prices))
        engine.publish(feedID, { price: price * 10n ** 12n }, { streamed: true })
    // The digits are those of a feed's first price, which was 1.
    const write = millionths => {
      const size = millionths < 0n ? -millionths : millionths
      const rounded = (size + 50n) / 100n
      const digits = String(rounded).padStart(5, '0')
      const whole = Number(digits.slice(0, -4)).toLocaleString('en')
      return `${millionths < 0n ? '-' : ''}${whole}.${digits.slice(-4)}`
    }
    const expected = [ethUsd, fine, ...others].map(feedID => [
      feedID === ethUsd ? 'ETH/USD' : `${feedID.slice(0, 10)}…${feedID.slice(-4)}`,
      write(prices[feedID]),
      String(count(feedID)),
      '0',
      'live',
    ])
    const shown = async () =>
      (await cellsOf('feed-rows')).map(cells => [cells[0], cells[1], ...cells.slice(4, 7)])
    await waitFor('the feeds', shown, expected)
  },
  async 'counts what each origin has brought, and what each plugin has passed on'() {
    const all = engine.ledger().length - engine.feeds.length
    const received = async () => (await cellsOf('origin-rows')).map(cells => cells[4])
    await waitFor('the origins', received, [String(all), String(all)])
    const shares = (await cellsOf('origin-rows')).map(cells => Number.parseInt(cells[3], 10))
    assert.ok(Math.abs(shares[0] + shares[1] - 100) <= 1, `shares ${shares}`)
    const rows = async () =>
      new Map((await cellsOf('stack-rows')).map(([name, ...cells]) => [name, cells]))
    const dedup = async () => (await rows()).get('dedup')?.slice(3)
    await waitFor('dedup', dedup, [String(all), String(all)])
    assert.deepEqual((await rows()).get('you')?.[3], String(all))
    assert.deepEqual((await rows()).get('wire')?.[3], String(2 * all))
    assert.deepEqual(
      [...(await rows()).keys()],
      [
        ...['you', 'logging', 'decoders', 'continuity', 'dedup', 'retirement'],
        ...['ha-discovery', 'retry', 'feed-access', 'rate-limit', 'hmac-auth', 'wire'],
      ],
    )
  },
  async 'says within a second that an origin is lost'() {
    const delays = []
    const trips = async () => (await cellsOf('origin-rows')).every(cells => / ms$/.test(cells[2]))
    await until(trips, 'both round trips', 60_000)
    for (let round = 0; round < 3; round++) {
      const [origin] = engine.origins
      await waitFor('both origins', facts, ['32 feeds, all live', '2 of 2 origins', 'no gaps'])
      const killedAt = performance.now()
      await origin.kill()
      await browser.until(`document.getElementById('verdict').dataset.level === 'degraded'`)
      delays.push(Math.round(performance.now() - killedAt))
      assert.deepEqual(await facts(), ['32 feeds, all live', '1 of 2 origins', 'no gaps'])
      const [[name, state, trip]] = await cellsOf('origin-rows')
      assert.equal(name, '001')
      assert.match(state, /^(?!connected).+since \d\d:\d\d:\d\d UTC$/)
      assert.equal(trip, '–')
      const needs = await textOf('needs')
      assert.match(needs, /^origin 001 at 127\.0\.0\.1:\d+ is away: .+ since \d\d:\d\d:\d\d UTC$/)
      assert.match(needs, new RegExp(`${state.slice(-12)}$`))
      await origin.restart()
      await waitFor('the verdict', verdict, 'ok')
    }
    const [[, , , , , , reconnects]] = await cellsOf('origin-rows')
    assert.equal(reconnects, '3')
    assert.match(await textOf('event-rows'), /lostorigin 001 is lost: connection to .* was closed/)
    // A machine that is busy with other things is slow now and then.
    assert.ok(Math.min(...delays) < 1000, `${delays} ms`)
    return `${delays.join(', ')} ms`
  },
  async 'can be used with keys alone, and shows where the focus is'() {
    const stops = []
    for (let step = 0; step < 80; step++) {
      await browser.press('Tab')
      // Behind the last stop the focus leaves the page.
      if (await browser.evaluate('document.activeElement === document.body')) break
      stops.push(
        await browser.evaluate(`(() => {
          const { activeElement: at } = document
          const { outlineStyle, outlineWidth } = getComputedStyle(at)
          return [at.id || at.className || at.tagName, outlineStyle !== 'none' && outlineWidth !== '0px']
        })()`),
      )
    }
    const names = stops.map(([name]) => name)
    assert.deepEqual(names.slice(0, 6), [
      'skip',
      'pause',
      'theme',
      'attention',
      'filter',
      'feeds-scroll',
    ])
    assert.ok(names.filter(name => name === 'scroll').length >= 3, String(names))
    // The heads of two tables; the range of a chart.
    assert.equal(names.filter(name => name === 'sort').length, 14, String(names))
    assert.deepEqual(
      stops.filter(([, isSeen]) => !isSeen),
      [],
    )
  },
  async 'sorts a table by the head of a column, with keys'() {
    const rows = async column => (await cellsOf('feed-rows')).map(cells => cells[column])
    const heads = () =>
      browser.evaluate(
        `[...document.querySelectorAll('#feed-head th')].map(head => head.ariaSort ?? 'none')`,
      )
    const before = await rows(0)
    await browser.evaluate(`document.querySelector('#feed-head .c-price .sort').focus()`)
    await browser.press('Enter')
    const number = text => Number(text.replaceAll(',', ''))
    const falling = before.length && (await rows(1)).map(number)
    assert.deepEqual(
      falling,
      falling.toSorted((one, other) => other - one),
    )
    assert.equal((await heads())[1], 'descending')
    await browser.press('Enter')
    const rising = (await rows(1)).map(number)
    assert.deepEqual(
      rising,
      rising.toSorted((one, other) => one - other),
    )
    assert.equal((await heads())[1], 'ascending')
    engine.publish(others[3], { price: 900_000n * e18 })
    await waitFor('the new order', async () => (await rows(1)).at(-1), '900,000.0000')
    await browser.press('Enter')
    assert.deepEqual([await rows(0), new Set(await heads())], [before, new Set(['none'])])
    const name = async () => (await cellsOf('origin-rows')).map(([first]) => first)
    const sortOrigins = `document.querySelector('#origin-head .sort').click()`
    await browser.evaluate(sortOrigins)
    await browser.evaluate(sortOrigins)
    assert.deepEqual(await name(), ['002', '001'])
    await browser.evaluate(sortOrigins)
    assert.deepEqual(await name(), ['001', '002'])
  },
  async 'shows the events by their times after a reload, too'() {
    await openPage(monitor.url)
    await browser.until(`document.querySelectorAll('#event-rows li').length > 3`)
    const times = await browser.evaluate(
      `[...document.querySelectorAll('#event-rows time')].map(time => time.dateTime)`,
    )
    assert.deepEqual(times, times.toSorted().reverse())
    assert.match(await textOf('events-zone'), /^times in UTC$/)
    await waitFor('the feeds', async () => (await cellsOf('feed-rows')).length, 32)
  },
  async 'cuts a spike of the rate, marks it, and says how high it is'() {
    const draws = () => textOf('rate-most')
    for (let round = 0; round < 100; round++) {
      engine.publish(fine)
      await pause(100)
    }
    for (let round = 0; round < 3000; round++) engine.publish(fine)
    const pattern = /^highest ([\d,.]+) at \d\d:\d\d:\d\d, above the chart \(▲\)$/
    const most = await until(async () => {
      const [, value = '0'] = pattern.exec(await draws()) ?? []
      return Number(value.replaceAll(',', '')) > 200 && value
    }, 'the mark of a spike')
    await browser.evaluate(
      `[...document.querySelectorAll('#rate .ranges button')].find(({ textContent }) => textContent === '6 h').click()`,
    )
    await browser.until(
      `document.querySelector('#rate .ranges [aria-pressed=true]').textContent === '6 h'`,
    )
    await browser.until(`!/▲/.test(document.getElementById('rate-most').textContent)`)
    assert.match(await draws(), new RegExp(`^highest ${most} at `))
  },
  async 'filters the feeds'() {
    const visible = () =>
      browser.evaluate(
        `[...document.querySelectorAll('#feed-rows tr:not([hidden]) th')].map(cell => cell.textContent)`,
      )
    const type = text =>
      browser.evaluate(`(() => {
        const filter = document.getElementById('filter')
        filter.value = ${JSON.stringify(text)}
        filter.dispatchEvent(new Event('input'))
      })()`)
    await type('eth')
    assert.deepEqual(await visible(), ['ETH/USD'])
    await type(fine.slice(-20).toUpperCase())
    assert.deepEqual(await visible(), ['0x10035a7b…c6d7'])
    await type('nothing')
    assert.equal(await textOf('no-feeds'), 'No feed matches.')
    await type('')
    await browser.evaluate(`document.getElementById('attention').click()`)
    assert.deepEqual(await visible(), [])
    assert.equal(await textOf('no-feeds'), 'All feeds are live.')
    await browser.evaluate(`document.getElementById('attention').click()`)
    assert.equal((await visible()).length, 32)
  },
  async 'stands still while it is paused, but for the verdict'() {
    await browser.evaluate(`document.getElementById('pause').click()`)
    const before = await cellsOf('feed-rows')
    engine.publish(ethUsd, { price: 5n * e18 })
    await engine.origins[1].kill()
    await waitFor('the verdict', verdict, 'degraded')
    assert.deepEqual(await cellsOf('feed-rows'), before)
    await engine.origins[1].restart()
    await browser.evaluate(`document.getElementById('pause').click()`)
    await waitFor('the price', async () => (await cellsOf('feed-rows'))[0][1], '5.0000')
    await waitFor('the verdict', verdict, 'ok')
  },
  async 'shows a gap'() {
    engine.publish(fine, {}, { streamed: false, stored: false })
    await pause(50)
    engine.publish(fine, {})
    const gaps = async () => (await cellsOf('feed-rows'))[1][5]
    await waitFor('the gap', gaps, '1')
    assert.equal(await verdict(), 'degraded')
    assert.deepEqual((await facts()).at(2), '1 gap in 5 minutes')
    assert.match(
      await textOf('event-rows'),
      /gap0x10035a7b…c6d7: gap from [\d-]+ \d\d:\d\d:\d\d\.\d{3}Z to .*: the service has no reports there/,
    )
    assert.match(await textOf('announcer'), /Needs attention|gap/)
  },
  async 'has a page for a feed: exact prices, the spread, changes, reports and gaps'() {
    const bid = 3_851_421_299_999_999_999_999n
    const quote = { price: bid + 1n, bid, ask: bid + 1_925_710_649_999_999_999n }
    engine.publish(ethUsd, quote)
    await browser.evaluate(
      `[...document.querySelectorAll('#feed-rows a')].find(({ textContent }) => textContent === 'ETH/USD').click()`,
    )
    const facts = async () =>
      new Map(
        await browser.evaluate(
          `[...document.querySelectorAll('#feed-facts div')].map(({ children }) => [...children].map(each => each.textContent))`,
        ),
      )
    await waitFor('the price', async () => (await facts()).get('price'), '3851.4213')
    const shown = await facts()
    assert.equal(shown.get('bid'), '3851.421299999999999999')
    assert.equal(shown.get('ask'), '3853.347010649999999998')
    assert.equal(shown.get('spread'), '1.925710649999999999 · 5.00 bps')
    assert.equal(await browser.evaluate('location.hash'), `#/feed/${ethUsd}`)
    assert.equal(await textOf('feed-id'), ethUsd)
    const [report] = await cellsOf('report-rows')
    assert.deepEqual(report.slice(1, 4), [
      '3851.4213',
      '3851.421299999999999999',
      '3853.347010649999999998',
    ])
    assert.match(report[0], /^\d\d:\d\d:\d\d\.000$/)
    assert.match(report[5], /^origin 00[12]$/)
    const changes = await cellsOf('change-rows')
    assert.deepEqual(
      changes.map(([range]) => range),
      ['5 min', '15 min', '1 h', '6 h'],
    )
    assert.match(changes[0][3], /^\d\d:\d\d:\d\d UTC$/)
    await browser.evaluate(`location.hash = '#/feed/0X10035A7B…C6D7'`)
    await waitFor('the feed by its name', () => textOf('feed-id'), fine)
    const [[, , cause]] = await cellsOf('gap-rows')
    assert.equal(cause, 'upstream')
    assert.match(await textOf('price-now'), /UTC, gaps are coloured$/)
    for (const width of [320, 390, 1440]) {
      await browser.resize(width, 844)
      const wide = await browser.evaluate(`[document.documentElement.scrollWidth, innerWidth]`)
      assert.ok(wide[0] <= wide[1], `${wide} of ${width}`)
      assert.deepEqual([width, await audit()], [width, []])
    }
    await browser.resize(1440, 1000)
    await browser.evaluate(`location.hash = '#/feed/nothing'`)
    await browser.until(`!document.getElementById('no-feed').hidden`)
    await browser.evaluate(`location.hash = '#/'`)
    await browser.until(`document.getElementById('feeds').checkVisibility()`)
  },
  async 'needs no scrolling to the side on a phone'() {
    for (const width of [320, 390, 768]) {
      await browser.resize(width, 800)
      const wide = await browser.evaluate(`[document.documentElement.scrollWidth, innerWidth]`)
      assert.ok(wide[0] <= wide[1], `${wide} of ${width}`)
      const table = await browser.evaluate(
        `(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)(document.getElementById('feeds-scroll'))`,
      )
      assert.ok(table, `the feeds are wider than ${width}`)
      const cut = await browser.evaluate(`[...document.querySelectorAll('#origin-rows tr > *')]
        .filter(cell => {
          const { left, right, width } = cell.getBoundingClientRect()
          return width === 0 || left < 0 || right > innerWidth || cell.scrollWidth > cell.clientWidth + 1
        })
        .map(cell => cell.textContent)`)
      assert.deepEqual([width, cut], [width, []])
    }
    await browser.resize(1440, 1000)
  },
  async 'has the contrast, names and structure that WCAG 2.2 AA asks for, in both themes'() {
    for (const scheme of ['light', 'dark']) {
      await browser.prefer({ 'prefers-color-scheme': scheme })
      const background = await browser.evaluate(`getComputedStyle(document.body).backgroundColor`)
      assert.equal(background, scheme === 'dark' ? 'rgb(14, 17, 21)' : 'rgb(244, 245, 247)')
      for (const width of [1440, 320]) {
        await browser.resize(width, 1000)
        assert.deepEqual([scheme, width, await audit()], [scheme, width, []])
      }
      const contrasts = await browser.evaluate(`(${measureContrasts})()`)
      assert.equal(contrasts.length, 17)
      assert.deepEqual(
        contrasts.filter(({ ratio }) => !(ratio >= 4.5)),
        [],
      )
    }
    await browser.resize(1440, 1000)
  },
  async 'has a switch of themes, and remembers it'() {
    await browser.prefer({ 'prefers-color-scheme': 'dark' })
    await browser.evaluate(`document.getElementById('theme').click()`)
    const look = () =>
      browser.evaluate(
        `[getComputedStyle(document.body).backgroundColor, document.getElementById('theme').textContent]`,
      )
    assert.deepEqual(await look(), ['rgb(244, 245, 247)', 'Dark'])
    await openPage(monitor.url)
    await waitFor('the theme', look, ['rgb(244, 245, 247)', 'Dark'])
    await browser.evaluate(`document.getElementById('theme').click()`)
    assert.deepEqual(await look(), ['rgb(14, 17, 21)', 'Light'])
  },
  async 'moves nothing where less motion is preferred'() {
    await waitFor('the feeds', async () => (await cellsOf('feed-rows')).length, 32)
    const durations = () =>
      browser.evaluate(
        `[...new Set([...document.querySelectorAll('*')].map(each => getComputedStyle(each).transitionDuration))]`,
      )
    assert.ok((await durations()).length > 1)
    await browser.prefer({ 'prefers-reduced-motion': 'reduce' })
    assert.deepEqual(await durations(), ['0s'])
  },
  async 'says that the monitor does not answer any more'() {
    await monitor.kill()
    await waitFor('the verdict', verdict, 'lost')
    assert.equal(await textOf('headline'), 'The monitor does not answer')
    assert.match((await facts())[0], /^values of .+ ago$/)
  },
  async 'shows what the network says as text'() {
    const name = '<img src=x onerror=alert(1)>'
    const service = createServer((_request, response) =>
      response.end(JSON.stringify({ feeds: [{ feedID: ethUsd, name }] })),
    )
    await new Promise(resolve => service.listen(0, '127.0.0.1', resolve))
    const REST_URL = `http://127.0.0.1:${service.address().port}`
    monitor = await startMonitor([], { ...envOf(engine), REST_URL })
    await openPage(monitor.url)
    await waitFor('the name', async () => (await cellsOf('feed-rows'))[0]?.[0], name)
    assert.equal(await browser.evaluate(`document.querySelectorAll('main img').length`), 0)
    const setHTML = `document.getElementById('headline').innerHTML = '<b>bold</b>'`
    await assert.rejects(browser.evaluate(setHTML), /TrustedHTML/)
    assert.match(browser.complaints.pop(), /TrustedHTML/)
    assert.equal(await monitor.stop(), 0)
    service.closeAllConnections()
    service.close()
  },
  async 'asks for the token elsewhere than on loopback, and leaves it in no address'() {
    monitor = await startMonitor(['--ha', '--host', '0.0.0.0'], envOf(engine))
    const [, port, token] = /^http:\/\/0\.0\.0\.0:(\d+)\/#token=([\w-]{32})$/.exec(monitor.url)
    const address = `http://127.0.0.1:${port}/`
    await openPage(address)
    await waitFor('the headline', () => textOf('headline'), 'The token is missing')
    await openPage(`${address}#token=${token}`)
    await browser.until(`document.querySelectorAll('#feed-rows tr').length === 32`)
    assert.equal(await browser.evaluate('location.href'), address)
    await browser.open(address)
    await browser.until(`document.querySelectorAll('#feed-rows tr').length === 32`)
    assert.equal(await monitor.stop(), 0)
  },
}

async function runCheck(name, run) {
  const started = performance.now()
  try {
    const remark = await run()
    const complaints = browser.complaints
      .splice(0)
      .filter(text => !/ERR_|status of 40[14]/.test(text))
    assert.deepEqual(complaints, [])
    const ms = Math.round(performance.now() - started)
    console.log(`  ok    monitor: ${name}  (${ms} ms)${remark === undefined ? '' : `: ${remark}`}`)
  } catch (error) {
    process.exitCode = 1
    console.log(`  FAIL  monitor: ${name}\n${String(error.message).replace(/^/gm, '        ')}`)
  }
}

try {
  browser = await openBrowser()
  monitor = await startMonitor(['--ha', '--stale', '600'], envOf(engine))
  await browser.resize(1440, 1000)
  await browser.prefer({ 'prefers-color-scheme': 'light' })
  await openPage(monitor.url)
  for (const [name, run] of Object.entries(checks)) await runCheck(name, run)
} catch (error) {
  console.log(`monitor: FAILED\n${error.stack}`)
  process.exitCode = error instanceof NoChromium ? UNAVAILABLE : 1
} finally {
  await browser?.close()
  await monitor?.kill()
  await engine.close()
}
if (!process.exitCode) console.log('monitor: all checks of the page passed')
