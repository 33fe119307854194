// Bundles the simulator into one file, so that it starts fast and needs no node_modules at run time.
import { build } from 'esbuild';

await build({
  entryPoints: ['src/main.ts'],
  outfile: 'dist/simulator.mjs',
  bundle: true,
  format: 'esm',
  platform: 'node',
  target: 'node20',
  legalComments: 'none',
  logLevel: 'warning',
  // Optional peers of Baileys that are only imported behind a try; they are not installed here.
  external: ['jimp', 'sharp', 'link-preview-js', 'audio-decode', 'bufferutil', 'utf-8-validate'],
  // CommonJS dependencies (libsignal, protobufjs, ws) call require() for node's own modules.
  banner: { js: "import { createRequire as __createRequire } from 'node:module'; const require = __createRequire(import.meta.url);" }
});
