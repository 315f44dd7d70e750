// Opens the playground in a real browser: part of npm run browser. What it shows is compared with the official SDK, with ethers
// by the table of the schemas, and with the values of published reports; its accessibility with axe-core.
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { decodeReport as officialDecode } from '@chainlink/data-streams-sdk'
import { startDataEngine } from '@sluice/engine'
import { build } from 'esbuild'
import { AbiCoder } from 'ethers'
import { createClient } from 'sluice'
import { createProof } from 'sluice/proof'
import { root } from '../package/steps.mjs'
import { NoChromium } from '../support/chromium.mjs'
import { openBrowser } from './devtools.mjs'

/** The exit code where there is no Chromium. */
const UNAVAILABLE = 69
/** The most bytes that the page may load, gzipped: its own program, the curve, the examples and the style. */
const BUDGET = 60_000
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const readJSON = (...path) => JSON.parse(readFileSync(join(root, ...path), 'utf8'))
const published = readJSON('test', 'vectors', 'published-reports.json').reports
const signed = readJSON('test', 'vectors', 'signed-reports.json')
const schemas = readJSON('test', 'vectors', 'report-schemas.json').versions
const { examples } = readJSON('site', 'playground', 'examples.json')
/** A folder for pictures of the page, if they are wanted. */
const { PICTURES } = process.env

async function bundle() {
  const { outputFiles } = await build({
    stdin: {
      contents: `import { mountPlayground } from './playground.ts'
        globalThis.unmount = mountPlayground(document.getElementById('playground'))`,
      resolveDir: join(root, 'site', 'playground'),
    },
    bundle: true,
    minify: true,
    write: false,
    format: 'esm',
    platform: 'browser',
    tsconfigRaw: '{}',
    target: 'es2022',
    outfile: '/page.js',
    // The page chooses noble, so the library never loads it.
    external: ['*/wasm.js'],
    logLevel: 'error',
  })
  return new Map(outputFiles.map(({ path, contents }) => [path, Buffer.from(contents)]))
}

const page = `<!doctype html><html lang="en"><meta charset="utf-8"><title>Playground</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="/page.css"><link rel="stylesheet" href="/frame.css">
<main><h1>Playground</h1><div id="playground"></div></main>
<script type="module" src="/page.js"></script></html>`
const frame = `:root { color-scheme: light dark } body { margin: 0; background: light-dark(#fff, #1b1b1f);
color: light-dark(#1d1f24, #e6e6e9); font-family: system-ui, sans-serif } main { max-width: 1200px; margin: auto; padding: 16px }`
/** What the site may set, and more: nothing may be sent anywhere. */
const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; require-trusted-types-for 'script'"

const files = await bundle()
const asked = []
const server = createServer((request, response) => {
  asked.push(request.url)
  const type = request.url.endsWith('.css') ? 'text/css' : 'text/javascript'
  if (request.url === '/')
    response
      .setHeader('Content-Type', 'text/html')
      .setHeader('Content-Security-Policy', policy)
      .end(page)
  else if (request.url === '/frame.css') response.setHeader('Content-Type', 'text/css').end(frame)
  else if (files.has(request.url))
    response.setHeader('Content-Type', type).end(files.get(request.url))
  else response.writeHead(404).end()
})
await new Promise(resolve => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${server.address().port}/`

const versions = Array.from({ length: 13 }, (_, index) => index + 2)
const hex = (number, width) => number.toString(16).padStart(width, '0')
const feedOf = (version, unit = 0) => `0x${unit}${hex(version, 3)}${'5a'.repeat(30)}`
const feeds = [
  ...versions.map(version => feedOf(version)),
  ...versions.map(version => feedOf(version, 1)),
]
const engine = await startDataEngine({
  feeds: feeds.map(feedID => ({ feedID, intervalMs: 0 })),
  history: 5,
})
const { apiKey, userSecret, endpoint, wsEndpoint } = engine
const signersText = JSON.stringify(engine.network)
let browser

const blobOf = fullReport => {
  const length = Number.parseInt(fullReport.slice(2 + 64 * 7, 2 + 64 * 8), 16)
  return `0x${fullReport.slice(2 + 64 * 8, 2 + 64 * 8 + 2 * length)}`
}
const versionOf = feedID => Number.parseInt(feedID.slice(3, 6), 16)

/** The fields of a report by ethers and the table of the schemas: names, exact values and places. */
function readByTable(fullReport, feedID) {
  const isFine = feedID[2] === '1'
  const fields = schemas[`V${versionOf(feedID)}`].fields.map(line => {
    const [type, name] = line.split(' ')
    const isTime = ['validFromTimestamp', 'observationsTimestamp', 'expiresAt'].includes(name)
    return { name: name === 'feedId' ? 'feedID' : name, type: isTime && isFine ? 'uint64' : type }
  })
  const values = AbiCoder.defaultAbiCoder().decode(
    fields.map(({ type }) => type),
    blobOf(fullReport),
  )
  return fields.map(({ name, type }, index) => ({
    name,
    type,
    value: String(values[index]),
    at: 32 * (8 + index),
    bytes: fullReport.slice(2 + 64 * (8 + index), 2 + 64 * (9 + index)),
  }))
}

const quote = value => JSON.stringify(value)

/** Waits until what was put in has been shown. */
const settled = () => browser.until(`document.querySelector('.pg').dataset.done === 'true'`)

async function paste(text, into = 'Report or proof') {
  await browser.evaluate(`(() => {
    delete document.querySelector('.pg').dataset.done
    const label = [...document.querySelectorAll('.pg label')].find(each => each.textContent === ${quote(into)})
    const area = document.getElementById(label.htmlFor)
    area.value = ${quote(text)}
    area.dispatchEvent(new Event('input', { bubbles: true }))
  })()`)
  await settled()
}

async function choose(label, text) {
  await browser.evaluate(`(() => {
    delete document.querySelector('.pg').dataset.done
    const found = [...document.querySelectorAll('.pg label')].find(each => each.textContent === ${quote(label)})
    const select = document.getElementById(found.htmlFor)
    select.value = [...select.options].find(each => each.textContent.startsWith(${quote(text)})).value
    select.dispatchEvent(new Event('change', { bubbles: true }))
  })()`)
  await settled()
}
const chooseSigners = text => choose('Signers of the network', text)
const noSigners = () => chooseSigners('None')

/** What the page shows of each part of a group. */
const partsOf = title =>
  browser.evaluate(`(() => {
    const heading = [...document.querySelectorAll('.pg h3')].find(each => each.textContent === ${quote(title)})
    const list = heading.closest('section').querySelector('ol')
    return [...list.children].map(item => ({
      name: item.dataset.name,
      type: item.querySelector('.pg-type').textContent.replace('type ', ''),
      value: item.querySelector('.pg-value').textContent,
      at: Number(item.dataset.at),
      bytes: item.querySelector('.pg-raw').textContent,
      place: item.querySelector('.pg-at').textContent,
      shown: item.querySelector('.pg-shown')?.textContent,
    }))
  })()`)
const verdicts = () =>
  browser.evaluate(`[...document.querySelectorAll('.pg-verdict')].map(each => ({
    level: each.dataset.level,
    title: each.querySelector('h3').textContent,
    text: [...each.querySelectorAll('p')].map(one => one.textContent).join(' '),
    items: [...each.querySelectorAll('li')].map(one => one.textContent),
  }))`)
const status = () => browser.evaluate(`document.querySelector('[role=status]').textContent`)

/** What axe-core finds wrong, a line each. */
async function audit() {
  if (await browser.evaluate(`typeof axe === 'undefined'`)) await browser.evaluate(axe)
  return browser.evaluate(
    `axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] })
      .then(({ violations }) => violations.flatMap(({ id, nodes }) =>
        nodes.map(({ html, any }) => id + ': ' + html.slice(0, 120) + ' ' + (any[0]?.message ?? ''))))`,
  )
}

async function picture(name) {
  if (PICTURES === undefined) return
  mkdirSync(PICTURES, { recursive: true })
  const { data } = await browser.send('Page.captureScreenshot', {
    format: 'png',
    captureBeyondViewport: true,
  })
  writeFileSync(join(PICTURES, `${name}.png`), Buffer.from(data, 'base64'))
}

const ledger = feedID => engine.ledger().filter(report => report.feedID === feedID)

const checks = {
  async 'loads at most 60 kB gzipped, and no WebAssembly'() {
    await browser.until(`document.querySelector('.pg')?.dataset.ready === 'true'`)
    const own = asked.filter(path => files.has(path))
    const size = own.reduce((sum, path) => sum + gzipSync(files.get(path), { level: 9 }).length, 0)
    assert.ok(size <= BUDGET, `${size} bytes`)
    assert.ok(!asked.some(path => path.includes('wasm')), asked.join())
    return `${(size / 1000).toFixed(1)} kB in ${own.length} files`
  },
  async 'works without a network from then on'() {
    await browser.send('Network.enable')
    const conditions = { offline: true, latency: 0, downloadThroughput: 0, uploadThroughput: 0 }
    await browser.send('Network.emulateNetworkConditions', conditions)
    asked.length = 0
  },
  async 'shows each field of every version as others read it'() {
    let fields = 0
    for (const feedID of feeds) {
      const [{ fullReport }] = ledger(feedID)
      await paste(fullReport)
      const shown = await partsOf('Signed fields')
      const expected = readByTable(fullReport, feedID)
      assert.deepEqual(
        shown.map(({ name, type, value, at, bytes }) => ({ name, type, value, at, bytes })),
        expected,
      )
      fields += shown.length
      const version = versionOf(feedID)
      // The SDK takes the first digit of an id for a part of the version, and knows no version 14.
      if (version > 13 || feedID[2] === '1') continue
      const official = officialDecode(fullReport, feedID)
      for (const { name, value } of shown.slice(1)) {
        const theirs = official[name]
        // The SDK has no times of the head but the expiry.
        if (theirs === undefined && /^(validFrom|observations)Timestamp$/.test(name)) continue
        assert.ok(theirs !== undefined, `${name} of version ${version}`)
        if (typeof theirs === 'bigint' || Number.isSafeInteger(theirs))
          assert.equal(value, String(theirs))
        else assert.equal(Number(value), theirs)
      }
    }
    return `${fields} fields`
  },
  async 'shows published reports, their context and who signed them'() {
    await noSigners()
    for (const { fullReport, decoded, signers, configDigest } of published) {
      await paste(fullReport)
      const fields = await partsOf('Signed fields')
      assert.deepEqual(Object.fromEntries(fields.map(({ name, value }) => [name, value])), decoded)
      const [digest, position] = await partsOf('Report context')
      assert.equal(digest.value, configDigest)
      const word = fullReport.slice(2 + 64, 2 + 128)
      const [epoch, round] = [word.slice(54, 62), word.slice(62)].map(each =>
        Number.parseInt(each, 16),
      )
      assert.equal(position.value, `${epoch}, ${round}`)
      const [form, signatures] = await verdicts()
      assert.equal(form.title, 'Well formed')
      assert.equal(signatures.title, 'Signers not checked')
      assert.deepEqual(
        signatures.items.map(text => /0x\w+/.exec(text)[0]),
        signers,
      )
    }
    for (const { fullReport, decoded } of signed.reports) {
      await paste(fullReport)
      const fields = Object.fromEntries(
        (await partsOf('Signed fields')).map(({ name, value }) => [name, value]),
      )
      for (const [name, value] of Object.entries(decoded)) assert.equal(fields[name], value, name)
    }
    return `${published.length + signed.reports.length} reports`
  },
  async 'verifies by published signers, and by a list of your own'() {
    for (const [preset, reports] of [
      [
        'Test network',
        published.filter(({ configDigest }) => /^0x000(6f9b5|90d9e)/.test(configDigest)),
      ],
      [
        'Main network',
        signed.reports.filter(({ fullReport }) => fullReport.startsWith('0x00094bae')),
      ],
    ]) {
      await chooseSigners(preset)
      for (const { fullReport } of reports) {
        await paste(fullReport)
        const [, { level, title, items }] = await verdicts()
        assert.deepEqual([level, title], ['good', 'Verified'])
        assert.ok(
          items.every(item => item.endsWith(' in the list') && !item.endsWith('not in the list')),
        )
      }
    }
    await choose('Signers of the network', 'A list of your own')
    await paste(signersText, 'Signers as JSON')
    const [{ fullReport }] = ledger(feeds[1])
    await paste(fullReport)
    assert.equal((await verdicts())[1].title, 'Verified')
    assert.match(await status(), /Signatures: verified\.$/)
  },
  async 'rejects by the wrong signers, and says which addresses are unknown'() {
    const others = {
      ...engine.network,
      signers: engine.network.signers.map((_, index) => `0x${hex(index + 1, 40)}`),
    }
    await paste(JSON.stringify(others), 'Signers as JSON')
    const [, { level, title, items }] = await verdicts()
    assert.deepEqual([level, title], ['bad', 'Not verified: unknown-signer'])
    assert.ok(items.every(item => item.endsWith('not in the list')))
    await chooseSigners('Test network')
    assert.equal((await verdicts())[1].title, 'Not verified: unknown-digest')
    await choose('Signers of the network', 'A list of your own')
    await paste('{ "signers": [', 'Signers as JSON')
    const [, broken] = await verdicts()
    assert.equal(broken.title, 'Signers not checked')
    assert.match(broken.text, /not JSON/)
    await noSigners()
  },
  async 'says what is wrong with a damaged report, and where, and shows the rest'() {
    const { fullReport } = published[0]
    const at = (byte, digits) => {
      const place = 2 + 2 * byte
      return fullReport.slice(0, place) + digits + fullReport.slice(place + digits.length)
    }
    const cases = [
      [fullReport.slice(0, -64), /^byte 704: the report ends here, and 32 bytes are missing$/],
      [fullReport.slice(0, -7), /^byte 704: the last word has 57 of 64 hexadecimal digits/],
      [
        at(4 * 32, hex(512, 64)),
        /^byte 128: offset of rawRs: it must be 544, where its part begins$/,
      ],
      [at(14 * 32, `7f${'0'.repeat(62)}`), /^byte 448: price: it does not fit int192$/],
      [at(14 * 32 + 5, 'x'), /^byte 453: "x" is no hexadecimal digit$/],
      [at(8 * 32, '0fff'), /^byte 256: feedID: there is no decoder for version 4095$/],
      [`${fullReport}${'0'.repeat(64)}`, /^byte 736: 32 bytes are too many$/],
    ]
    for (const [damaged, expected] of cases) {
      await paste(damaged)
      const [form, signatures] = await verdicts()
      assert.deepEqual([form.level, form.title], ['bad', 'Damaged'])
      assert.match(form.text, /^(fullReport|report of feed) /)
      assert.ok(
        form.items.some(item => expected.test(item)),
        `${expected}: ${form.items.join(' | ')}`,
      )
      assert.match(signatures.title, /^(Not checked|Signers not checked)$/)
      const fields = await partsOf('Signed fields')
      assert.equal(fields.find(({ name }) => name === 'observationsTimestamp').value, '1734216545')
    }
    // The mistake is a button that leads to its part.
    await paste(cases[3][0])
    await browser.evaluate(`document.querySelector('.pg-problems button').click()`)
    assert.equal(
      await browser.evaluate(`document.activeElement.closest('li').dataset.name`),
      'price',
    )
    await paste(at(14 * 32 + 31, '00'))
    assert.deepEqual(
      (await verdicts()).map(({ title }) => title),
      ['Well formed', 'Signers not checked'],
    )
    await chooseSigners('Test network')
    assert.match((await verdicts())[1].title, /^Not verified: /)
    await noSigners()
  },
  async 'reads what the REST API returns, and notices an envelope that lies'() {
    const { feedID, fullReport, validFromTimestamp, observationsTimestamp } = ledger(feeds[1])[0]
    const report = { feedID, fullReport, validFromTimestamp, observationsTimestamp }
    await paste(JSON.stringify({ report }))
    assert.equal((await verdicts())[0].title, 'Well formed')
    await paste(JSON.stringify({ report: { ...report, observationsTimestamp: 7 } }))
    const [form] = await verdicts()
    assert.equal(form.title, 'Envelope and report differ')
    assert.match(form.items.join(), /The envelope’s observationsTimestamp is 7/)
    await paste(
      JSON.stringify({
        reports: ledger(feeds[1]).map(each => ({ ...report, fullReport: each.fullReport })),
      }),
    )
    assert.equal(
      await browser.evaluate(`document.querySelectorAll('.pg-result select option').length`),
      ledger(feeds[1]).length,
    )
  },
  async 'checks a proof, and says what it proves and what not'() {
    const client = createClient({ apiKey, userSecret, endpoint, wsEndpoint })
    const { feedID, observationsTimestamp } = ledger(feeds[1])[2]
    const proof = await createProof(client, { feedID, at: observationsTimestamp, field: 'price' })
    await client.close()
    await paste(JSON.stringify(proof))
    assert.deepEqual(
      (await verdicts()).map(({ title }) => title),
      ['Not checked'],
    )
    await choose('Signers of the network', 'A list of your own')
    await paste(signersText, 'Signers as JSON')
    const [proved, assumed, unproved] = await verdicts()
    assert.deepEqual(
      [proved.title, assumed.title, unproved.title],
      ['Proved', 'Assumed', 'Not proved'],
    )
    assert.ok(
      proved.items.some(item =>
        item.includes(`price at ${observationsTimestamp} is ${proof.claim.value}`),
      ),
    )
    assert.match(unproved.items.join(), /That the price is right/)
    const wrong = { ...proof, claim: { ...proof.claim, value: '1' } }
    await paste(JSON.stringify(wrong))
    assert.deepEqual(
      (await verdicts()).map(({ title }) => title),
      ['Refused: value'],
    )
    await chooseSigners('Test network')
    await paste(JSON.stringify(proof))
    assert.deepEqual(
      (await verdicts()).map(({ title }) => title),
      ['Refused: signature'],
    )
    await noSigners()
  },
  async 'offers examples, all of which are what they say'() {
    for (const { name } of examples) {
      await choose('Example', name)
      const [first] = await verdicts()
      const isCut = name.startsWith('Damaged: the last')
      assert.equal(
        first.title,
        name.startsWith('Proof') ? 'Not checked' : isCut ? 'Damaged' : 'Well formed',
      )
      if (/^V\d/.test(name))
        assert.match(
          await browser.evaluate(`document.querySelector('.pg h2').textContent`),
          new RegExp(`^Report of version ${Number.parseInt(name.slice(1), 10)}\\b`),
        )
    }
    await chooseSigners('Test network')
    assert.equal((await verdicts())[0].title, 'Proved')
    await noSigners()
    return `${examples.length} examples`
  },
  async 'takes a file that is dropped'() {
    await browser.evaluate(`(() => {
      delete document.querySelector('.pg').dataset.done
      const data = new DataTransfer()
      data.items.add(new File([${quote(published[2].fullReport)}], 'report.hex'))
      document.querySelector('.pg').dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))
    })()`)
    await settled()
    assert.equal((await partsOf('Signed fields'))[6].value, published[2].decoded.price)
    assert.equal((await partsOf('Signed fields'))[6].shown, '3232.051369848762')
  },
  async 'shows hostile input as text, and bounds it'() {
    const evil = '<img src=x onerror=alert(1)>'
    await paste(JSON.stringify({ fullReport: evil }))
    await paste(
      JSON.stringify({
        format: 'sluice-proof',
        feedID: evil,
        claim: { [evil]: evil },
        reports: [evil],
      }),
    )
    assert.equal(await browser.evaluate(`document.querySelectorAll('.pg img').length`), 0)
    await paste(evil)
    assert.equal((await verdicts())[0].title, 'This can’t be read')
    await browser.evaluate(`(() => {
      delete document.querySelector('.pg').dataset.done
      const area = document.querySelector('.pg textarea')
      area.value = '0x' + '0'.repeat(5e6)
      area.dispatchEvent(new Event('input'))
    })()`)
    await settled()
    assert.match((await verdicts())[0].text, /more than 4,194,304 characters/)
    await paste(`0x${'00'.repeat(70_000)}`)
    assert.match((await verdicts())[0].items.join(), /longer than 65536 bytes/)
    assert.ok((await browser.evaluate(`document.querySelectorAll('.pg-hex li').length`)) <= 2048)
  },
  async 'marks the bytes of the part that has the pointer or the focus'() {
    await paste(published[0].fullReport)
    const marked = () =>
      browser.evaluate(
        `[...document.querySelectorAll('.pg-hex .pg-on code')].map(each => each.textContent.replaceAll(' ', ''))`,
      )
    await browser.evaluate(`document.querySelector('[data-name=bid] button').focus()`)
    const bid = published[0].fullReport.slice(2 + 64 * 15, 2 + 64 * 16)
    assert.deepEqual(await marked(), [bid])
    await browser.press('ArrowDown')
    assert.equal(await browser.evaluate(`document.activeElement.closest('li').dataset.name`), 'ask')
    await browser.press('Enter')
    assert.equal(
      await browser.evaluate(`document.activeElement.getAttribute('aria-expanded')`),
      'true',
    )
    await browser.evaluate(
      `document.querySelectorAll('.pg-hex li')[15].dispatchEvent(new MouseEvent('mouseenter'))`,
    )
    assert.equal(
      await browser.evaluate(`document.querySelector('.pg-items .pg-on').dataset.name`),
      'bid',
    )
  },
  async 'can be used by everybody, in light and in dark, on a phone too'() {
    const damaged = published[0].fullReport.slice(0, -70).replace('0006', '0g06')
    const views = { report: published[2].fullReport, damaged, proof: examples.at(-1).text }
    await chooseSigners('Test network')
    for (const scheme of ['light', 'dark']) {
      await browser.prefer({ 'prefers-color-scheme': scheme })
      for (const width of [1280, 390, 360]) {
        await browser.resize(width, 900)
        for (const [name, text] of Object.entries(views)) {
          await paste(text)
          assert.deepEqual(await audit(), [], `${name}, ${scheme}, ${width}`)
          const wide = await browser.evaluate('document.documentElement.scrollWidth')
          assert.ok(wide <= width, `${wide} of ${width} pixels`)
          if (name !== 'proof')
            await browser.evaluate(`document.querySelector('[data-name=price] button').focus()`)
          assert.deepEqual(await audit(), [], `${name}, ${scheme}, ${width}, with a mark`)
          await picture(`${name}-${scheme}-${width}`)
        }
      }
    }
    await browser.resize(1280, 900)
  },
  async 'has asked for nothing since it was loaded, and can be removed'() {
    assert.deepEqual(asked, [])
    const before = await browser.evaluate(
      `performance.getEntriesByType('resource').map(each => each.name)`,
    )
    assert.ok(
      before.every(each => each.startsWith(url)),
      before.join(),
    )
    await browser.evaluate('unmount()')
    assert.equal(await browser.evaluate(`document.querySelector('.pg')`), null)
  },
}

try {
  browser = await openBrowser()
  await browser.resize(1280, 900)
  await browser.prefer({ 'prefers-color-scheme': 'light' })
  await browser.open(url)
  for (const [name, run] of Object.entries(checks)) {
    const started = performance.now()
    try {
      const remark = await run()
      assert.deepEqual(
        browser.complaints.splice(0).filter(text => !/favicon/.test(text)),
        [],
      )
      const ms = Math.round(performance.now() - started)
      console.log(
        `  ok    playground: ${name}  (${ms} ms)${remark === undefined ? '' : `: ${remark}`}`,
      )
    } catch (error) {
      process.exitCode = 1
      console.log(
        `  FAIL  playground: ${name}\n${String(error.message).replace(/^/gm, '        ')}`,
      )
    }
  }
} catch (error) {
  console.log(`playground: FAILED\n${error.stack}`)
  process.exitCode = error instanceof NoChromium ? UNAVAILABLE : 1
} finally {
  await browser?.close()
  await engine.close()
  server.closeAllConnections()
  server.close()
}
if (!process.exitCode) console.log('playground: all checks of the page passed')
