// A worker as one would write it in ten minutes: plain node, unbundled Baileys, its own file store. Connected and idle.
// Prints a line of JSON per step: {"qr": …} and {"open": true}.
import { DisconnectReason, makeWASocket, useMultiFileAuthState, WA_CERT_DETAILS } from 'baileys'
import { Agent } from 'node:https'

const { FOLDER, WEBSOCKET_URL, ROOT_PUBLIC_KEY } = process.env
const say = step => process.stdout.write(`${JSON.stringify(step)}\n`)
const nothing = () => undefined
const logger = { level: 'silent', child: () => logger, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing }
for (const name of ['log', 'info', 'warn', 'error', 'debug']) console[name] = nothing

WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(ROOT_PUBLIC_KEY, 'hex')
const { state, saveCreds } = await useMultiFileAuthState(FOLDER)

const connect = () => {
  const socket = makeWASocket({ auth: state, logger, waWebSocketUrl: WEBSOCKET_URL, agent: new Agent() })
  socket.ev.on('creds.update', saveCreds)
  socket.ev.on('connection.update', ({ qr, connection, lastDisconnect }) => {
    if (qr) say({ qr })
    if (connection === 'open') say({ open: true })
    if (connection === 'close' && lastDisconnect?.error?.output?.statusCode === DisconnectReason.restartRequired) connect()
  })
}
connect()
