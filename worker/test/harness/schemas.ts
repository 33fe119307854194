/** Checks everything a worker says in the tests against the JSON Schemas of the seam. */
import { readdirSync, readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

const folder = new URL('../../../protocol/', import.meta.url)

export const schemaNames = (): string[] =>
  readdirSync(folder)
    .filter(name => name.endsWith('.schema.json'))
    .map(name => name.replace('.schema.json', ''))

const load = (): Map<string, ValidateFunction> => {
  const ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false, allowUnionTypes: true })
  const validators = new Map<string, ValidateFunction>()
  const schemas = schemaNames().map(name => ({
    name,
    schema: JSON.parse(readFileSync(new URL(`${name}.schema.json`, folder), 'utf8')) as { $id: string },
  }))
  for (const { schema } of schemas) ajv.addSchema(schema)
  for (const { name, schema } of schemas) {
    const validate = ajv.getSchema(schema.$id)
    if (validate) validators.set(name, validate)
  }
  return validators
}

const validators = load()

/** Problems in words; empty if the value fits. */
export const problemsOf = (name: string, value: unknown): string[] => {
  const validate = validators.get(name)
  if (!validate) return [`there is no schema ${name}`]
  if (validate(value)) return []
  return (validate.errors ?? []).map(error => `${error.instancePath} ${error.message ?? ''} ${JSON.stringify(error.params)}`)
}
