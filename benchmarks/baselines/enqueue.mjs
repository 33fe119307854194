// What all three baselines do per request: an id, one EVALSHA of the product's own enqueue script, an answer. Nothing is checked.
import { randomBytes } from 'node:crypto'
import { readFileSync, renameSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'

const { STORE_URL, SCRIPT_FILE, ARGUMENTS_FILE, READY_FILE, NODE_PACKAGES } = process.env
export const load = createRequire(`${NODE_PACKAGES}/package.json`)
const { Redis } = load('ioredis')

// as the product sends them, with the parts that differ from message to message filled in below
const given = JSON.parse(readFileSync(ARGUMENTS_FILE, 'utf8'))
const redis = new Redis(STORE_URL)
const sha = await redis.script('LOAD', readFileSync(SCRIPT_FILE, 'utf8'))

export const enqueue = async body => {
  const number = randomBytes(9).toString('hex')
  const now = Date.now()
  const answer = await redis.evalsha(sha, 0, JSON.stringify({
    ...given, now, today: new Date(now).toISOString().slice(0, 10), id: `msg_${number}`, wa: `3EB0${number.toUpperCase()}`,
    to: `${body.to}@s.whatsapp.net`, recipient: body.to, content: JSON.stringify({ kind: 'text', text: body.message }),
    session: body.sessionId,
  }))
  const told = JSON.parse(answer)
  return { queued: true, messageId: told.messageId, sessionId: told.session, estimatedSendAt: new Date(told.acceptedAt).toISOString() }
}

export const ready = port => {
  writeFileSync(`${READY_FILE}.part`, JSON.stringify({ url: `http://127.0.0.1:${port}` }))
  renameSync(`${READY_FILE}.part`, READY_FILE)
}
