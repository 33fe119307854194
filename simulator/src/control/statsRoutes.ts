/** Numbers about everything that happened, and the help page. */
import type { ProxyPool } from '../proxies/pool.ts';
import type { World } from '../world.ts';
import type { Routes } from './http.ts';

const HELP = `WhatsApp simulator: control API

POST /phones {phone, autoReceipt?: delivered|read|none}   create a phone (again: the same one)
GET  /phones, /phones/{p}                                 phones and their linked devices
POST /phones/{p}/scan {qr}                                scan the QR code that a device shows
POST /phones/{p}/pair-code {code}                         type the eight-character pairing code
POST /phones/{p}/unlink {device?}                         log out one linked device, or all
POST /phones/{p}/send {to, text | image | video | audio | voice | document | sticker: {base64, mimetype?, fileName?, seconds?}
                       | location | contact, caption?, quotedId?, byLid?}
POST /phones/{p}/react {to, id, emoji}, /edit {to, id, text}, /delete {to, id}, /vote {to, id, options}
POST /phones/{p}/read {id?, type?: read|played}           send read receipts
GET  /phones/{p}/inbox                                    what the phone received, decrypted
GET  /phones/{p}/sent                                     what the phone sent, with its status
POST /faults                                              drop, refuseLogin, nackSends, ackDelayMs, noAcks, loseSends,
                                                          mediaStatus, mediaStallMs, blackHole, upgradeStatus, streamError, proxyDown, proxyUp,
                                                          proxyFault, clear; most take phone and count
GET  /faults, /stats, /health
`;

const devicesOf = (world: World) =>
  [...world.hub.all].flatMap(({ account, device, remoteAddress, active, openedAt }) =>
    account && device ? [{ phone: account.phone, device: device.id, remoteAddress, active, since: openedAt }] : []
  );

const proxiesOf = (pool: ProxyPool) =>
  pool.proxies.map(({ options, url, kind, up, fault, connections, asked }) => ({
    port: options.port,
    url,
    kind,
    up,
    fault,
    exitAddress: options.exitAddress,
    connections,
    hosts: asked
  }));

export const statsRoutes = (world: World, pool: ProxyPool): Routes => ({
  'GET /': () => HELP,
  'GET /health': () => ({ status: 'ok', pid: process.pid }),
  'GET /stats': () => {
    const { model } = world.store;
    return {
      ...world.stats,
      phones: model.accounts.size,
      connected: world.hub.loggedIn,
      sockets: world.hub.all.size,
      messages: {
        accepted: model.acceptedStanzas,
        ids: model.accepted.size,
        duplicates: model.duplicateStanzas,
        nacked: world.stats.nacks,
        lost: world.stats.lostSends
      },
      rssBytes: process.memoryUsage.rss(),
      devices: devicesOf(world),
      proxies: proxiesOf(pool)
    };
  }
});
