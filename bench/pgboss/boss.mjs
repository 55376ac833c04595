// pg-boss as the harness drives it. Words on the command line: what to do, the database's url, options as JSON.
// `drain` says "ready", begins when it reads a line, reports what it
// finished as lines of JSON, and ends with its input. An empty report lets the harness look whether all is over.

import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { PgBoss } from 'pg-boss'

const QUEUE = 'item'
const FILL_BATCH = 1000
const REPORT_MS = 20
// How long to wait after a fetch that found nothing. Its own worker waits for half a second at least.
const IDLE_MS = 2

const [what, url, json] = process.argv.slice(2)
const options = JSON.parse(json)

async function open (more = {}) {
  const boss = new PgBoss({ connectionString: url, schedule: false, supervise: false, max: 2, ...more })
  boss.on('error', error => { console.error(error); process.exit(1) })
  await boss.start()
  return boss
}

const pause = ms => new Promise(resolve => setTimeout(resolve, ms))

async function setup ({ policy }) {
  const boss = await open()
  await boss.createQueue(QUEUE, { policy })
  await boss.stop()
}

function job (number, { lanes, lane_by: laneBy }) {
  const lane = `lane-${number % lanes}`
  if (!lanes) return { data: { number } }
  return laneBy === 'groupConcurrency' ? { data: { number }, group: { id: lane } } : { data: { number }, singletonKey: lane }
}

async function fill (given) {
  const boss = await open()
  for (let first = 0; first < given.n; first += FILL_BATCH) {
    const count = Math.min(FILL_BATCH, given.n - first)
    await boss.insert(QUEUE, Array.from({ length: count }, (_, at) => job(first + at, given)))
  }
  await boss.stop()
}

async function drain ({ batch, group_concurrency: groupConcurrency }) {
  const boss = await open()
  const wish = { batchSize: batch, ...(groupConcurrency ? { groupConcurrency } : {}) }
  await boss.fetch(QUEUE, { ...wish, minPriority: 1000 }) // connects, finds nothing
  const input = createInterface({ input: process.stdin })
  let over = false
  input.on('close', () => { over = true })
  console.log('"ready"')
  await once(input, 'line')

  const begun = process.cpuUsage()
  let finished = []
  let ended = 0
  const report = () => {
    const { user, system } = process.cpuUsage(begun)
    console.log(JSON.stringify({ finished, ended_s: ended, cpu_s: (user + system) / 1e6 }))
    finished = []
  }
  const reporting = setInterval(report, REPORT_MS)
  while (!over) {
    const jobs = await boss.fetch(QUEUE, wish)
    if (!jobs.length) {
      await pause(IDLE_MS)
      continue
    }
    const { affected } = await boss.complete(QUEUE, jobs) // jobs, not ids: fenced by attempt, as its worker does
    if (affected !== jobs.length) throw new Error(`completed ${affected} of ${jobs.length}`)
    for (const { data } of jobs) finished.push(data.number)
    ended = Number(process.hrtime.bigint()) / 1e9 // the clock of Python's `time.monotonic`
  }
  clearInterval(reporting)
  report()
  await boss.stop({ graceful: false })
}

// Does what each line of its input names, and says so when it is done.
async function calls () {
  const boss = await open()
  let jobs = []
  const does = {
    send: () => boss.send(QUEUE, {}),
    fetch: async () => { jobs = await boss.fetch(QUEUE) },
    touch: () => boss.touch(QUEUE, jobs),
    complete: () => boss.complete(QUEUE, jobs)
  }
  for await (const name of createInterface({ input: process.stdin })) {
    await does[name]()
    console.log(JSON.stringify(name))
  }
  await boss.stop({ graceful: false })
}

await { setup, fill, drain, calls }[what](options)
process.exit(0)
