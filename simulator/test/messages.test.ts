/** Messages, media and receipts between real Baileys clients and simulated phones. */
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { decryptPollVote, downloadMediaMessage, getBinaryNodeChild, getBinaryNodeChildren, getBinaryNodeChildUInt, proto } from 'baileys';
import { Client } from './client.ts';
import { SimulatorProcess, waitUntil } from './process.ts';

const A = '972500000201';
const B = '972500000202';
const C = '972500000203';
const simulator = new SimulatorProcess();
let a: Client;
let b: Client;
const { DELIVERY_ACK, READ, PLAYED } = proto.WebMessageInfo.Status;

before(async () => {
  await simulator.start();
  await simulator.post('/phones', { phone: C });
  [a, b] = await Promise.all([new Client(simulator).pair(A), new Client(simulator).pair(B)]);
});
after(async () => {
  await Promise.all([a, b].map(client => client?.close()));
  await simulator.dispose();
});

const entryOf = (phone: string, id: string) =>
  waitUntil(`${id} in the inbox`, async () => (await simulator.inbox(phone)).find(entry => entry.id === id));

test('a text reaches the phone, is acknowledged and reported as delivered', async () => {
  const id = await a.send(C, 'hello phone');
  assert.equal((await a.ack(id)).error, undefined);
  await a.status(id, DELIVERY_ACK);
  const entry = await entryOf(C, id);
  assert.deepEqual([entry.from, entry.text, entry.kind, entry.copies], [A, 'hello phone', 'text', 1]);
});

test('texts go both ways between two linked devices, encrypted all the way', async () => {
  await a.send(B, 'from a to b');
  const atB = await b.text('from a to b');
  assert.equal(atB.message.key.remoteJid, `${A}@s.whatsapp.net`);
  assert.equal(atB.type, 'notify');
  await b.send(A, 'from b to a');
  await a.text('from b to a');
  const inbox = await simulator.inbox(B);
  assert.ok(inbox.some(entry => entry.text === 'from a to b'), 'the phone of B has it too');
});

test('a phone sends a text, a reply and a reaction that a device can read', async () => {
  const { id } = await simulator.post<{ id: string }>(`/phones/${C}/send`, { to: A, text: 'from the phone' });
  const { message } = await a.text('from the phone');
  assert.equal(message.key.id, id);
  assert.equal(message.pushName, 'Phone 0203');
  const mine = await a.send(C, 'quote me');
  await entryOf(C, mine);
  await simulator.post(`/phones/${C}/send`, { to: A, text: 'as you said', quotedId: mine });
  const reply = await a.text('as you said');
  assert.equal(reply.message.message?.extendedTextMessage?.contextInfo?.stanzaId, mine);
  assert.equal(reply.message.message?.extendedTextMessage?.contextInfo?.quotedMessage?.conversation, 'quote me');
  await simulator.post(`/phones/${C}/send`, { to: A, reaction: { id: mine, emoji: '👍' } });
  await waitUntil('reaction', () => a.messages.some(({ message: m }) => m.message?.reactionMessage?.key?.id === mine));
});

test('a long talk between phone and device needs no retry', async () => {
  const phone = '972500000208';
  await simulator.post('/phones', { phone });
  const retries = async () => (await simulator.get<{ receipts: { retry: number } }>('/stats')).receipts.retry;
  const before = await retries();
  for (let round = 0; round < 4; round++) {
    for (const part of ['first', 'second']) {
      const id = await a.send(phone, `${part} question ${round}`);
      assert.equal((await entryOf(phone, id)).text, `${part} question ${round}`);
      await simulator.post(`/phones/${phone}/send`, { to: A, text: `${part} answer ${round}` });
      await a.text(`${part} answer ${round}`);
    }
  }
  assert.equal(await retries(), before);
});

test('the status of what a phone sent follows the receipts of the device', async () => {
  const { id } = await simulator.post<{ id: string }>(`/phones/${C}/send`, { to: A, text: 'read me' });
  const { message } = await a.text('read me');
  const status = () => simulator.get<{ id: string; status: string }[]>(`/phones/${C}/sent`).then(list => list.find(sent => sent.id === id)?.status);
  await waitUntil('delivered', async () => (await status()) === 'delivered');
  await a.socket.readMessages([message.key]);
  await waitUntil('read', async () => (await status()) === 'read');
});

test('a phone can mark a message as read and as played', async () => {
  const id = await a.send(C, 'look at this');
  await entryOf(C, id);
  await simulator.post(`/phones/${C}/read`, { id });
  await a.status(id, READ);
  await simulator.post(`/phones/${C}/read`, { id, type: 'played' });
  await a.status(id, PLAYED);
});

test('a phone set to "read" reads at once, one set to "none" says nothing', async () => {
  await simulator.post('/phones', { phone: '972500000204', autoReceipt: 'read' });
  await simulator.post('/phones', { phone: '972500000205', autoReceipt: 'none' });
  const silent = await a.send('972500000205', 'anybody there?');
  const read = await a.send('972500000204', 'read at once');
  await a.status(read, READ);
  await entryOf('972500000205', silent);
  assert.ok(!a.updates.some(update => update.id === silent));
});

test('an image from a device is opened by the phone', async () => {
  const image = randomBytes(30_000);
  const sent = await a.socket.sendMessage(`${C}@s.whatsapp.net`, { image, mimetype: 'image/png', caption: 'a picture', jpegThumbnail: '' });
  const entry = await entryOf(C, sent?.key.id ?? '');
  assert.deepEqual([entry.kind, entry.caption, entry.text], ['image', 'a picture', 'a picture']);
  assert.deepEqual(entry.media, { mimetype: 'image/png', size: 30_000, sha256: createHash('sha256').update(image).digest('hex') });
});

test('an image from a phone can be downloaded by the device', async () => {
  const image = randomBytes(50_000);
  await simulator.post(`/phones/${C}/send`, { to: B, image: { base64: image.toString('base64'), mimetype: 'image/png' }, caption: 'look' });
  const { message } = await waitUntil('image', () => b.messages.find(({ message: m }) => m.message?.imageMessage));
  assert.equal(message.message?.imageMessage?.caption, 'look');
  const options = b.downloadOptions();
  const downloaded = await downloadMediaMessage(message, 'buffer', { options });
  assert.ok(image.equals(downloaded));
});

test('a phone sends every kind of file, and edits, takes back and votes, as unmodified Baileys understands it', async () => {
  const send = async (what: string, body: object): Promise<proto.IMessage> => {
    const { id } = await simulator.post<{ id: string }>(`/phones/${C}/${what}`, { to: B, ...body });
    const { message } = await waitUntil(`${what} ${id}`, () => b.messages.find(({ message: m }) => m.key.id === id));
    return Object.assign(message.message ?? {}, { whole: message });
  };
  for (const kind of ['video', 'audio', 'voice', 'document', 'sticker']) {
    const file = randomBytes(2_000);
    const { whole } = (await send('send', { [kind]: { base64: file.toString('base64'), fileName: 'a.bin' } })) as { whole?: never };
    if (!whole) throw new Error('no message');
    assert.ok(file.equals(await downloadMediaMessage(whole, 'buffer', { options: b.downloadOptions() })), kind);
  }
  const { EDIT, REVOKE } = { EDIT: proto.Message.ProtocolMessage.Type.MESSAGE_EDIT, REVOKE: proto.Message.ProtocolMessage.Type.REVOKE };
  const edit = (await send('edit', { id: 'X1', text: 'better' })).protocolMessage;
  assert.deepEqual([edit?.type, edit?.key?.id, edit?.editedMessage?.conversation], [EDIT, 'X1', 'better']);
  const deletion = (await send('delete', { id: 'X1' })).protocolMessage;
  assert.deepEqual([deletion?.type, deletion?.key?.id], [REVOKE, 'X1']);

  const poll = (await b.socket.sendMessage(`${C}@s.whatsapp.net`, { poll: { name: 'Lunch?', values: ['Yes', 'No'], selectableCount: 1 } }))!;
  const id = poll.key.id ?? '';
  assert.equal('pollSecret' in (await entryOf(C, id)), false, 'the secret is not shown');
  const { vote } = (await send('vote', { id, options: ['No'] })).pollUpdateMessage ?? {};
  const pollEncKey = poll.message?.messageContextInfo?.messageSecret ?? new Uint8Array();
  const jids = { pollCreatorJid: `${B}@s.whatsapp.net`, voterJid: `${C}@s.whatsapp.net` };
  const { selectedOptions } = decryptPollVote(vote ?? {}, { ...jids, pollMsgId: id, pollEncKey });
  assert.ok(createHash('sha256').update('No').digest().equals(selectedOptions[0] ?? new Uint8Array()));
  await assert.rejects(simulator.post(`/phones/${C}/vote`, { to: B, id: 'X1', options: ['No'] }), /NO_SUCH_MESSAGE/);
});

test('location, contact, poll, mention and document arrive with their content', async () => {
  const jid = `${C}@s.whatsapp.net`;
  const idOf = async (content: Parameters<typeof a.socket.sendMessage>[1]) => (await a.socket.sendMessage(jid, content))?.key.id ?? '';
  const location = await idOf({ location: { degreesLatitude: 32.1, degreesLongitude: 34.8, name: 'Office' } });
  assert.deepEqual((await entryOf(C, location)).location, { latitude: 32.1, longitude: 34.8, name: 'Office' });
  const vcard = 'BEGIN:VCARD\nVERSION:3.0\nFN:Dana\nEND:VCARD';
  const contact = await idOf({ contacts: { displayName: 'Dana', contacts: [{ displayName: 'Dana', vcard }] } });
  assert.deepEqual((await entryOf(C, contact)).contacts, [{ name: 'Dana', vcard }]);
  const poll = await idOf({ poll: { name: 'Lunch?', values: ['Yes', 'No'], selectableCount: 1 } });
  assert.deepEqual((await entryOf(C, poll)).poll, { question: 'Lunch?', options: ['Yes', 'No'], selectable: 1 });
  const mention = await idOf({ text: `@${B} hi`, mentions: [`${B}@s.whatsapp.net`] });
  assert.deepEqual((await entryOf(C, mention)).mentions, [`${B}@s.whatsapp.net`]);
  const document = await idOf({ document: Buffer.from('PDF'), mimetype: 'application/pdf', fileName: 'a.pdf' });
  assert.equal((await entryOf(C, document)).media?.size, 3);
});

test('a message to oneself is shown by the own phone, other sent copies are not', async () => {
  const id = await a.send(A, 'note to self');
  const entry = await entryOf(A, id);
  assert.deepEqual([entry.from, entry.fromMe, entry.text], [A, true, 'note to self']);
  const inbox = await simulator.inbox(A);
  assert.ok(!inbox.some(other => other.text === 'from a to b'));
});

test('a second device of the account gets a copy of what the first one sends', async () => {
  const second = await new Client(simulator).pair(A);
  await a.send(C, 'copy for my other device');
  const copy = await second.text('copy for my other device');
  assert.equal(copy.message.key.fromMe, true);
  assert.equal(copy.message.key.remoteJid, `${C}@s.whatsapp.net`);
  // A device linked after its peers looked the account up still gets what they send.
  await b.send(A, 'to both devices');
  await Promise.all([a.text('to both devices'), second.text('to both devices')]);
  await simulator.post(`/phones/${A}/unlink`, { device: 2 });
  assert.equal(await second.closed(), 401);
  const id = await b.send(A, 'to the remaining one');
  assert.equal((await b.ack(id)).error, undefined);
  await a.text('to the remaining one');
});

test('what came while a device was away waits for it', async () => {
  await b.close();
  const first = await a.send(B, 'waiting 1');
  await a.send(B, 'waiting 2');
  await simulator.post(`/phones/${C}/send`, { to: B, text: 'waiting 3' });
  await a.ack(first);
  await b.connect().opened();
  for (const text of ['waiting 1', 'waiting 2', 'waiting 3']) assert.equal((await b.text(text)).type, 'append');
  await waitUntil('queue is empty', async () => {
    const { devices } = await simulator.get<{ devices: { queued: number }[] }>(`/phones/${B}`);
    return devices.every(device => device.queued === 0);
  });
});

test('two stanzas with one id are one inbox entry with two copies', async () => {
  const id = 'REPEATED0001';
  await a.send(C, 'once or twice', id);
  await a.send(C, 'once or twice', id);
  await waitUntil('both acknowledged', () => a.acks.filter(ack => ack.id === id).length === 2);
  const entries = (await simulator.inbox(C)).filter(entry => entry.id === id);
  assert.deepEqual(entries.map(entry => entry.copies), [2]);
  const { messages } = await simulator.get<{ messages: { duplicates: number } }>('/stats');
  assert.equal(messages.duplicates, 1);
});

test('a number without a phone is not on WhatsApp; a message to it is acknowledged and lands nowhere', async () => {
  const missing = '972500000299';
  const found = await a.socket.onWhatsApp(missing, C);
  assert.deepEqual(found?.map(({ jid }) => jid), [`${C}@s.whatsapp.net`]);
  const id = await a.send(missing, 'into the void');
  assert.equal((await a.ack(id)).error, undefined);
  const { status } = await simulator.request('GET', `/phones/${missing}/inbox`);
  assert.equal(status, 404);
});

test('a chat addressed by LID works in both directions', async () => {
  const { lid } = await simulator.get<{ lid: string }>(`/phones/${B}`);
  const sent = await a.socket.sendMessage(lid, { text: 'to your lid' });
  const received = await b.text('to your lid');
  assert.match(received.message.key.remoteJid ?? '', /@lid$/);
  await a.status(sent?.key.id ?? '', DELIVERY_ACK);
});

test('typing is shown to the other side and counted', async () => {
  await b.socket.presenceSubscribe(`${A}@s.whatsapp.net`);
  await a.socket.sendPresenceUpdate('composing', `${B}@s.whatsapp.net`);
  await waitUntil('typing at b', () => b.presence.includes('composing'));
  const { presence } = await simulator.get<{ presence: { composing: number; available: number } }>('/stats');
  assert.ok(presence.composing >= 1 && presence.available >= 1);
});

test('a phone that cannot decrypt asks again and gets the message, counted as a retry', async () => {
  const phone = '972500000206';
  const client = await new Client(simulator).pair(phone);
  await client.status(await client.send(C, 'first'), DELIVERY_ACK);
  const old = new Map(client.data);
  await client.status(await client.send(C, 'second'), DELIVERY_ACK);
  // Back to an older state of the session; after a new login Baileys would start a new one by itself.
  client.restore(old);
  const id = await client.send(C, 'after the restore');
  const entry = await waitUntil('readable', async () => (await simulator.inbox(C)).find(e => e.id === id && e.text === 'after the restore'));
  assert.equal(entry.copies, 1);
  assert.ok(entry.retries >= 1);
  await client.close();
});

test('a device that cannot decrypt asks the phone again and gets the message', async () => {
  const phone = '972500000207';
  const client = await new Client(simulator).pair(phone);
  await simulator.post(`/phones/${C}/send`, { to: phone, text: 'one' });
  await client.text('one');
  // The device loses its session with that phone.
  for (const key of [...client.data.keys()]) if (key.startsWith('session/')) client.data.delete(key);
  await client.close();
  await client.connect().opened();
  await client.send(C, 'break the session open');
  for (const key of [...client.data.keys()]) if (key.startsWith('session/')) client.data.delete(key);
  await simulator.post(`/phones/${C}/send`, { to: phone, text: 'two' });
  await client.text('two');
  await client.close();
});

test('a device that cannot decrypt asks the sending device again and gets the message', async () => {
  await a.send(B, 'all is well');
  await b.text('all is well');
  for (const key of [...b.data.keys()]) if (key.startsWith('session/')) b.data.delete(key);
  const id = await a.send(B, 'sent again on request');
  await b.text('sent again on request');
  const entry = await entryOf(B, id);
  assert.deepEqual([entry.text, entry.copies], ['sent again on request', 1]);
  assert.ok(entry.retries >= 1);
});

test('one-time prekeys are used up, each once, and the device brings new ones when few are left', async () => {
  const { lid, devices } = await simulator.get<{ lid: string; devices: { device: number; preKeys: number }[] }>(`/phones/${B}`);
  const [device] = devices;
  assert.ok(device && device.preKeys < 812, 'earlier messages took some of the 812');
  const jid = lid.replace('@', `:${device.device}@`);
  const take = async (count: number) => {
    const users = Array.from({ length: count }, () => ({ tag: 'user', attrs: { jid } }));
    const request = { tag: 'iq', attrs: { xmlns: 'encrypt', type: 'get', to: '@s.whatsapp.net' }, content: [{ tag: 'key', attrs: {}, content: users }] };
    const list = getBinaryNodeChild(await a.socket.query(request), 'list');
    return getBinaryNodeChildren(list, 'user').map(user => getBinaryNodeChildUInt(getBinaryNodeChild(user, 'key') ?? user, 'id', 3));
  };
  const ids = await take(device.preKeys - 3);
  assert.equal(new Set(ids).size, device.preKeys - 3);
  await waitUntil('new prekeys', async () => {
    const { devices: now } = await simulator.get<{ devices: { preKeys: number }[] }>(`/phones/${B}`);
    return (now[0]?.preKeys ?? 0) >= 5;
  });
});
