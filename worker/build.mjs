// Bundles the worker into one file: a third of the memory and half of the start-up time of plain node + node_modules.
import { chmod, mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const root = new URL('.', import.meta.url)
const path = name => fileURLToPath(new URL(name, root))

// Made aside and moved in place: a worker started meanwhile finds the old bundle or the new one.
const aside = `dist/.new-${process.pid}`
await mkdir(path(aside), { recursive: true })

const result = await build({
  entryPoints: [path('src/main.ts')],
  outfile: path(`${aside}/worker.mjs`),
  bundle: true,
  minify: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  legalComments: 'external',
  metafile: true,
  logLevel: 'warning',
  // CommonJS packages inside the bundle call require() for Node's own modules.
  banner: { js: "import{createRequire as __cr}from'node:module';const require=__cr(import.meta.url);" },
  alias: {
    // Four functions of 1.4 MB of WASM are used; ours do the same on node:crypto. An unknown import fails the build.
    'whatsapp-rust-bridge': path('src/bridge.ts'),
    // Optional parts of Baileys: image, audio and link-preview libraries that are deliberately not there.
    ...Object.fromEntries(['jimp', 'sharp', 'link-preview-js', 'audio-decode'].map(name => [name, path('src/absent.ts')])),
  },
})

// How the launcher should start node; measured, see README.
await writeFile(
  path(`${aside}/worker.flags.json`),
  `${JSON.stringify(
    {
      nodeFlags: ['--max-old-space-size=64', '--max-semi-space-size=1', '--v8-pool-size=1', '--max-lazy', '--expose-gc'],
      env: { MALLOC_ARENA_MAX: '1', UV_THREADPOOL_SIZE: '1' },
    },
    null,
    2,
  )}\n`,
)
await chmod(path(`${aside}/worker.mjs`), 0o755)
// The bundle goes last: its time says whether everything is up to date.
for (const name of (await readdir(path(aside))).sort((a, b) => Number(a === 'worker.mjs') - Number(b === 'worker.mjs'))) {
  await rename(path(`${aside}/${name}`), path(`dist/${name}`))
}
await rm(path(aside), { recursive: true, force: true })
const [size] = Object.values(result.metafile.outputs).map(output => output.bytes).sort((a, b) => b - a)
process.stdout.write(`dist/worker.mjs ${((size ?? 0) / 1024 / 1024).toFixed(1)} MB\n`)
