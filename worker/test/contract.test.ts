import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { problemsOf, schemaNames } from './harness/schemas.ts'

interface Examples {
  valid: unknown[]
  invalid: unknown[]
}

for (const name of schemaNames()) {
  test(`the examples of ${name} are judged rightly`, () => {
    const file = new URL(`../../protocol/examples/${name}.json`, import.meta.url)
    const { valid, invalid } = JSON.parse(readFileSync(file, 'utf8')) as Examples
    assert.ok(valid.length > 0 && invalid.length > 0)
    for (const example of valid) assert.deepEqual(problemsOf(name, example), [], JSON.stringify(example))
    for (const example of invalid) assert.notDeepEqual(problemsOf(name, example), [], JSON.stringify(example))
  })
}
