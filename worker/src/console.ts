/** Makes console.* mute; imported before anything else, because libsignal prints whole sessions with their private keys. */
const mute = (): undefined => undefined

for (const method of ['log', 'info', 'warn', 'error', 'debug', 'trace', 'dir', 'table', 'group', 'assert'] as const) {
  console[method] = mute
}

export {}
