import assert from 'node:assert/strict'
import { test } from 'node:test'
import { proto } from 'baileys'
import { failureOf, parseAck } from '../src/acks.ts'
import { prepareContent, vcardOf } from '../src/content.ts'
import { readContent } from '../src/inboundContent.ts'
import { maskJid, safeText } from '../src/log.ts'
import { SendFailure, type Content } from '../src/protocol.ts'

const TO = '972500000002@s.whatsapp.net'

test('text goes without link look-up and with mentions and quote', () => {
  const { content, quoted } = prepareContent(TO, {
    kind: 'text',
    text: 'see https://example.com',
    mentions: ['972500000003@s.whatsapp.net'],
    quote: { waMessageId: 'Q', fromMe: false, text: 'before' },
  })
  assert.deepEqual(content, { text: 'see https://example.com', linkPreview: null, mentions: ['972500000003@s.whatsapp.net'] })
  assert.deepEqual(quoted?.key, { remoteJid: TO, id: 'Q', fromMe: false })
})

test('a voice message is marked as such', () => {
  const { content } = prepareContent(TO, { kind: 'audio', media: { base64: 'x' }, voice: true }, { path: '/f' })
  assert.deepEqual(content, { audio: { url: '/f' }, mimetype: 'audio/ogg; codecs=opus', ptt: true })
})

test('wrong content is an INVALID_CONTENT failure that is not repeated', () => {
  const wrong = [
    { kind: 'text', text: '' },
    { kind: 'location', latitude: 100, longitude: 0 },
    { kind: 'poll', question: 'x', options: ['a'] },
    { kind: 'contact', contacts: [] },
    { kind: 'image', media: {} },
    { kind: 'dance' },
  ] as unknown as Content[]
  for (const content of wrong) {
    assert.throws(
      () => prepareContent(TO, content),
      (error: unknown) => error instanceof SendFailure && error.code === 'INVALID_CONTENT' && !error.retryable,
    )
  }
})

test('a vCard escapes what has a meaning in it', () => {
  assert.match(vcardOf('Levi; Dana, Dr', '+972-50-000 0003'), /FN:Levi\\; Dana\\, Dr\nTEL;type=CELL;type=VOICE;waid=972500000003:\+972500000003/)
})

test('refusals of WhatsApp become the codes of the seam', () => {
  assert.equal(failureOf('463').code, 'RESTRICTED')
  assert.equal(failureOf('429').code, 'RATE_LIMITED')
  assert.ok((failureOf('rate-overlimit').retryAfterMs ?? 0) > 0)
  assert.equal(failureOf('400').retryable, false)
  assert.equal(failureOf('503').retryable, true)
  assert.deepEqual(parseAck({ tag: 'ack', attrs: { id: 'A', error: '463' } }, 5), { waMessageId: 'A', at: 5, error: '463' })
})

test('incoming kinds are recognised', () => {
  const { REVOKE, MESSAGE_EDIT } = proto.Message.ProtocolMessage.Type
  const key = { id: 'T', remoteJid: TO }
  const cases: Array<[proto.IMessage, unknown]> = [
    [{ conversation: 'hi' }, { kind: 'text', text: 'hi' }],
    [
      { extendedTextMessage: { text: 'yes', contextInfo: { stanzaId: 'Q', quotedMessage: { conversation: 'ok?' } } } },
      { kind: 'text', text: 'yes', replyTo: { waMessageId: 'Q', text: 'ok?' } },
    ],
    [
      { ephemeralMessage: { message: { imageMessage: { mimetype: 'image/png', fileLength: 5, caption: 'c' } } } },
      { kind: 'image', text: 'c', media: { kind: 'image', mimetype: 'image/png', sizeBytes: 5 } },
    ],
    [{ reactionMessage: { text: '👍', key } }, { kind: 'reaction', text: '👍', reaction: { waMessageId: 'T', emoji: '👍' } }],
    [{ reactionMessage: { key } }, { kind: 'reaction', reaction: { waMessageId: 'T', emoji: '' } }],
    [{ protocolMessage: { type: REVOKE, key } }, { kind: 'delete', deletion: { waMessageId: 'T' } }],
    [
      { protocolMessage: { type: MESSAGE_EDIT, key, editedMessage: { conversation: 'new' } } },
      { kind: 'edit', text: 'new', edit: { waMessageId: 'T', text: 'new' } },
    ],
    [{ protocolMessage: { type: proto.Message.ProtocolMessage.Type.APP_STATE_SYNC_KEY_SHARE } }, undefined],
    [{ senderKeyDistributionMessage: { groupId: 'g' } }, undefined],
    [{ audioMessage: { ptt: true, seconds: 3, mimetype: 'audio/ogg' } }, { kind: 'audio', media: { kind: 'audio', mimetype: 'audio/ogg', sizeBytes: 0, voice: true, durationS: 3 } }],
    [{ liveLocationMessage: { degreesLatitude: 1, degreesLongitude: 2, caption: 'here' } }, { kind: 'location', text: 'here', location: { latitude: 1, longitude: 2, live: true } }],
    [{ contactsArrayMessage: { contacts: [{ displayName: 'Dana', vcard: 'x'.repeat(9_000) }] } }, { kind: 'contact', contacts: [{ name: 'Dana' }] }],
    [{ pollCreationMessageV3: { name: '?', options: [{ optionName: 'a' }] } }, { kind: 'poll', text: '?', poll: { question: '?', options: ['a'], selectable: 0 } }],
    [{ pollUpdateMessage: { pollCreationMessageKey: key } }, { kind: 'poll_vote', pollVote: { waMessageId: 'T' } }],
    [{ conversation: 'a\ud800b 👋' }, { kind: 'text', text: 'a\ufffdb 👋' }],
    [{ conversation: `${'x'.repeat(65_535)}👋` }, { kind: 'text', text: `${'x'.repeat(65_535)}\ufffd` }],
    [{ locationMessage: { degreesLatitude: Infinity, degreesLongitude: NaN } }, { kind: 'location', location: { latitude: 0, longitude: 0 } }],
    [{ conversation: 'x'.repeat(100_000) }, { kind: 'text', text: 'x'.repeat(65_536) }],
  ]
  for (const [message, expected] of cases) assert.deepEqual(readContent(message), expected)
})

test('logs show no whole number', () => {
  assert.equal(maskJid('972501234567@s.whatsapp.net'), '*4567@s.whatsapp.net')
  assert.equal(safeText('to 972501234567 failed'), 'to *4567 failed')
})
