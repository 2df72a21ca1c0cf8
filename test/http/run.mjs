// Usage: node run.mjs SUITE PORT BASE
// Starts the suite's origin on PORT, runs all checks against the cache at BASE, and prints a JSON object of them by id:
// their kind (required, optimal or check), whether they passed, and why not.
import fs from 'fs'
import path from 'path'
import process from 'process'

const [suite, port, base] = process.argv.slice(2)
const engine = fs.existsSync(path.join(suite, 'test-engine')) ? path.join(suite, 'test-engine') : suite
const load = file => import('file://' + path.join(engine, file))

process.env.npm_config_protocol = 'http'
process.env.npm_config_port = port
process.env.npm_config_pidfile = '/dev/null'
console.log = console.error // of the suite
await load('server/server.mjs')

const { default: tests } = await import('file://' + path.join(suite, 'tests/index.mjs'))
const { runTests, getResults } = await load('client/runner.mjs')
const takesFetch = engine === suite // in the older layout
await (takesFetch ? runTests(tests, fetch, false, base, 25) : runTests(tests, false, base, 25))

const results = getResults()
const checks = {}
for (const group of tests) {
  for (const test of group.tests) {
    const result = results[test.id]
    if (result === undefined) continue // for browsers only
    checks[test.id] = { kind: test.kind || 'required', name: test.name, passed: result === true, depends: test.depends_on }
    if (result !== true) checks[test.id].why = `${result[0]}: ${result[1]}`
  }
}
process.stdout.write(JSON.stringify(checks, null, 1), () => process.exit(0))
