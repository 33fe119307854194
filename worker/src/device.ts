/** The browser description a session shows in the phone's list of linked devices: chosen once, then kept. */
import { createHash } from 'node:crypto'
import { Browsers, type WABrowserDescription } from 'baileys'

/** Ordinary combinations only: an unusual one is what makes a device stand out. */
const DESCRIPTIONS: readonly WABrowserDescription[] = [
  Browsers.windows('Chrome'),
  Browsers.windows('Edge'),
  Browsers.windows('Firefox'),
  Browsers.macOS('Chrome'),
  Browsers.macOS('Safari'),
  Browsers.ubuntu('Chrome'),
  Browsers.ubuntu('Firefox'),
]

export const chooseDescription = (sessionId: string): WABrowserDescription => {
  const number = createHash('sha256').update(sessionId).digest().readUInt32BE(0)
  return DESCRIPTIONS[number % DESCRIPTIONS.length] ?? Browsers.windows('Chrome')
}

export const fingerprintOf = (description: readonly string[]): string => description.join('/')
