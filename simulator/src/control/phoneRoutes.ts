/** Control of the phones: create, scan, unlink, send, read, look into the inbox. */
import { badRequest, notFound } from '../errors.ts';
import type { SendRequest } from '../phones/compose.ts';
import type { Presence } from '../server/presence.ts';
import { unlink } from '../server/unlink.ts';
import { inboxKey, type Account } from '../state/model.ts';
import type { AutoReceipt, InboxEntry } from '../state/records.ts';
import { normalisePhone } from '../state/store.ts';
import type { World } from '../world.ts';
import type { Body, Routes } from './http.ts';

const AUTO_RECEIPTS: readonly AutoReceipt[] = ['delivered', 'read', 'none'];

const requireText = (body: Body, name: string): string => {
  const value = body[name];
  if (typeof value !== 'string' || !value) throw badRequest(`"${name}" is missing`);
  return value;
};

const describe = (world: World, presence: Presence, account: Account) => ({
  phone: account.phone,
  jid: account.jid(),
  lid: account.jid(0, true),
  name: account.name,
  autoReceipt: account.autoReceipt,
  inbox: account.inbox.size,
  typing: presence.lastTyping(account.phone) ?? null,
  devices: [...account.devices.values()].map(device => {
    const connection = world.hub.of(account.phone, device.id);
    return {
      device: device.id,
      jid: account.jid(device.id),
      linkedAt: device.linkedAt,
      connected: connection !== undefined,
      remoteAddress: connection?.remoteAddress ?? null,
      queued: device.queue.size,
      preKeys: device.preKeyCount
    };
  })
});

const shownEntry = (world: World, account: Account, entry: InboxEntry) => {
  const accepted = world.store.model.accepted.get(inboxKey(entry.from, entry.id));
  const { pollSecret: _, ...shown } = entry;
  return {
    ...shown,
    copies: accepted?.copies ?? 1,
    retries: accepted?.retries ?? 0,
    read: account.readKeys.has(inboxKey(entry.from, entry.id))
  };
};

const create = (world: World, body: Body): Account => {
  const phone = normalisePhone(requireText(body, 'phone'));
  const { autoReceipt } = body;
  if (autoReceipt !== undefined && !AUTO_RECEIPTS.includes(autoReceipt as AutoReceipt)) {
    throw badRequest(`autoReceipt is one of ${AUTO_RECEIPTS.join(', ')}`);
  }
  const account = world.store.ensureAccount(phone);
  if (autoReceipt !== undefined && autoReceipt !== account.autoReceipt) {
    world.store.commit([{ k: 'autoReceipt', phone, value: autoReceipt as AutoReceipt }]);
  }
  return account;
};

const unlinkDevices = (world: World, account: Account, wanted: unknown): number[] => {
  if (wanted !== undefined && typeof wanted !== 'number') throw badRequest('"device" is a number');
  const ids = wanted === undefined ? [...account.devices.keys()] : [wanted];
  const removed = ids.filter(id => unlink(world, account, id));
  if (wanted !== undefined && !removed.length) throw notFound(`this phone has no device ${wanted}`, 'NO_SUCH_DEVICE');
  return removed;
};

export const phoneRoutes = (world: World, presence: Presence): Routes => {
  const known = (parameter: string): Account => {
    const account = world.store.account(normalisePhone(parameter));
    if (!account) throw notFound(`there is no phone ${parameter}; create it with POST /phones`, 'NO_SUCH_PHONE');
    return account;
  };
  /** A phone that is used for the first time is simply there. */
  const ensured = (parameter: string): Account => world.store.ensureAccount(normalisePhone(parameter));

  const send = (phone: string, body: Body, about?: Partial<SendRequest>) => {
    requireText(body, 'to');
    return world.phones.send(ensured(phone), { ...body, ...about } as unknown as SendRequest);
  };
  /** About another message of the chat, named by `id`. */
  const about = (name: 'reaction' | 'edit' | 'delete' | 'vote', word?: string) => (phone: string, body: Body) => {
    const what = { id: requireText(body, 'id'), ...(word ? { [word]: body[word] ?? '' } : {}) };
    return send(phone, { to: body.to }, { [name]: what });
  };

  return {
    'POST /phones': (_, body) => describe(world, presence, create(world, body)),
    'GET /phones': () => [...world.store.model.accounts.values()].map(account => describe(world, presence, account)),
    'GET /phones/:': phone => describe(world, presence, known(phone)),
    'POST /phones/:/scan': (phone, body) => world.pairing.scan(ensured(phone), requireText(body, 'qr')),
    'POST /phones/:/pair-code': (phone, body) => world.pairCodes.enter(ensured(phone), requireText(body, 'code')),
    'POST /phones/:/unlink': (phone, body) => ({ unlinked: unlinkDevices(world, known(phone), body.device) }),
    'POST /phones/:/send': (phone, body) => send(phone, body),
    'POST /phones/:/react': about('reaction', 'emoji'),
    'POST /phones/:/edit': about('edit', 'text'),
    'POST /phones/:/delete': about('delete'),
    'POST /phones/:/vote': (phone, body) => {
      if (!Array.isArray(body.options)) throw badRequest('"options" is a list of the options chosen');
      return about('vote', 'options')(phone, body);
    },
    'POST /phones/:/read': async (phone, body) => {
      const account = known(phone);
      await world.phones.idle(account);
      const id = body.id === undefined ? undefined : requireText(body, 'id');
      return { receipts: await world.phones.read(account, id, body.type === 'played' ? 'played' : 'read') };
    },
    'GET /phones/:/inbox': async phone => {
      const account = known(phone);
      // What the server has acknowledged must be visible: let the phone finish opening it.
      await world.phones.idle(account);
      return [...account.inbox.values()].map(entry => shownEntry(world, account, entry));
    },
    'GET /phones/:/sent': async phone => {
      const account = known(phone);
      await world.phones.idle(account);
      return [...account.sent.values()].map(({ id, to, at, kind, status }) => ({ id, to, at, kind, status }));
    }
  };
};
