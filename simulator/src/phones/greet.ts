/** What a phone sends to a newly linked device: its name and an (empty) history, as the real one does. */
import { promisify } from 'node:util';
import { deflate } from 'node:zlib';
import { proto } from 'baileys';
import { messageStanza, type Envelope } from '../server/messages.ts';
import type { Account } from '../state/model.ts';
import type { World } from '../world.ts';
import { encryptFor, newMessageId } from './send.ts';
import { SignalTransaction } from './signal.ts';

const compress = promisify(deflate);

const historyNotification = async (account: Account): Promise<proto.IMessage> => {
  const history = proto.HistorySync.encode({
    syncType: proto.HistorySync.HistorySyncType.INITIAL_BOOTSTRAP,
    conversations: [],
    progress: 100,
    phoneNumberToLidMappings: [{ pnJid: account.jid(), lidJid: account.jid(0, true) }]
  }).finish();
  return {
    protocolMessage: {
      type: proto.Message.ProtocolMessage.Type.HISTORY_SYNC_NOTIFICATION,
      historySyncNotification: {
        syncType: proto.HistorySync.HistorySyncType.INITIAL_BOOTSTRAP,
        progress: 100,
        initialHistBootstrapInlinePayload: await compress(history)
      }
    }
  };
};

export const greet = async (world: World, account: Account, device: number): Promise<void> => {
  if (!account.devices.has(device) || account.devices.get(device)?.bootstrapped) return;
  const to = { account, device, lid: false };
  const envelope: Envelope = { from: account, fromDevice: 0, id: newMessageId(), to: account.jid(), type: 'text', category: 'peer' };
  const signal = new SignalTransaction(account);
  const enc = await encryptFor(world, signal, to, await historyNotification(account));
  if (!enc) return;
  const shipment = world.post.prepare([{ ...to, stanza: messageStanza(envelope, to, [enc]) }]);
  world.store.commit([{ k: 'bootstrapped', phone: account.phone, id: device }, ...signal.records(), ...shipment.records]);
  shipment.send();
};
