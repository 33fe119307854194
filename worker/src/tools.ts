/** The subcommands that work on a session folder instead of running it: export, import, inspect. */
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { inspectAuth } from './authState.ts'
import { exportMultiFile, importMultiFile } from './multiFile.ts'
import { SettingsError } from './settings.ts'

export const TOOLS = ['export', 'import', 'inspect'] as const
export type Tool = (typeof TOOLS)[number]

export const isTool = (word: string | undefined): word is Tool => TOOLS.some(tool => tool === word)

const USAGE = 'usage: worker.mjs export --from SESSION_DIR --to DIR | import --from DIR --to SESSION_DIR | inspect SESSION_DIR'

/** Returns the line for stdout. */
export const runTool = (tool: Tool, argv: readonly string[]): string => {
  const { values, positionals } = parseArgs({
    args: [...argv],
    options: { from: { type: 'string' }, to: { type: 'string' } },
    allowPositionals: true,
  })
  if (tool === 'inspect') {
    const [folder] = positionals
    if (folder === undefined) throw new SettingsError(USAGE)
    return JSON.stringify(inspectAuth(join(folder, 'auth')))
  }
  const { from, to } = values
  if (from === undefined || to === undefined) throw new SettingsError(USAGE)
  const files = tool === 'export' ? exportMultiFile(join(from, 'auth'), to) : importMultiFile(from, join(to, 'auth'))
  return JSON.stringify({ files })
}
