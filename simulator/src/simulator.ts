/** Puts the parts together, starts them in order and stops them again. */
import { createServerCertificate } from './crypto/certificates.ts';
import { loadServerKeys } from './crypto/serverKeys.ts';
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createControlServer } from './control/http.ts';
import { FaultControl, faultRoutes } from './control/faultRoutes.ts';
import { phoneRoutes } from './control/phoneRoutes.ts';
import { statsRoutes } from './control/statsRoutes.ts';
import { Faults } from './faults.ts';
import type { Log } from './log.ts';
import { BlobStore } from './media/blobs.ts';
import { createMediaHost } from './media/host.ts';
import type { Options } from './options.ts';
import { Phones } from './phones/phones.ts';
import { Ports } from './ports.ts';
import { ProxyPool } from './proxies/pool.ts';
import { DeviceLists } from './server/deviceLists.ts';
import { Hub } from './server/hub.ts';
import { PairCodes } from './server/pairCode.ts';
import { Pairing } from './server/pairing.ts';
import { Post } from './server/post.ts';
import { Presence } from './server/presence.ts';
import { Receipts } from './server/receipts.ts';
import { Server } from './server/server.ts';
import { Stats } from './stats.ts';
import { Store } from './state/store.ts';
import type { World } from './world.ts';

export interface Ready {
  pid: number;
  url: string;
  websocketUrl: string;
  rootPublicKey: string;
  caFile: string;
  mediaHost: string;
  proxies: string[];
}

export interface Simulator {
  ready: Ready;
  stop(): Promise<void>;
}

const createWorld = (stateDir: string, log: Log, mediaHost: () => string): World => {
  const store = new Store(stateDir);
  const hub = new Hub();
  const base = {
    store,
    hub,
    log,
    mediaHost,
    post: new Post(store, hub),
    faults: new Faults(),
    stats: new Stats(),
    blobs: new BlobStore(join(stateDir, 'media')),
    deviceLists: new DeviceLists(hub)
  };
  // These work on the whole world, each other included.
  const world = base as World;
  world.receipts = new Receipts(world);
  world.pairing = new Pairing(world);
  world.pairCodes = new PairCodes(world);
  world.phones = new Phones(world);
  world.post.wakePhone = account => world.phones.wake(account);
  return world;
};

export const startSimulator = async (options: Options, log: Log): Promise<Simulator> => {
  const stateDir = resolve(options.state);
  mkdirSync(stateDir, { recursive: true, mode: 0o700 });
  const keys = loadServerKeys(stateDir);
  const certificate = createServerCertificate(keys.ca, ['localhost', '127.0.0.1']);
  const ports = new Ports(stateDir);
  let mediaHost = '';
  const world = createWorld(stateDir, log, () => mediaHost);
  const presence = new Presence(world);
  const server = new Server(world, presence, keys, certificate);
  const media = createMediaHost(world, certificate);
  const { host } = options;

  const mediaPort = await ports.bind('media', media, host, options.mediaPort);
  mediaHost = `localhost:${mediaPort}`;
  const pool = await ProxyPool.start({ count: options.proxies, kind: options.socks, host: options.proxyHost ?? host, stateDir }, ports);
  const wsPort = await ports.bind('ws', server.listener.server, host, options.wsPort);
  const control = createControlServer(
    { ...phoneRoutes(world, presence), ...faultRoutes(new FaultControl(world, server, pool)), ...statsRoutes(world, pool) },
    log
  );
  // The control port comes last: who can reach it finds everything else running.
  const controlPort = await ports.bind('control', control, host, options.controlPort);
  const reachable = host === '0.0.0.0' ? '127.0.0.1' : host;

  return {
    ready: {
      pid: process.pid,
      url: `http://${reachable}:${controlPort}`,
      websocketUrl: `wss://localhost:${wsPort}/ws/chat`,
      rootPublicKey: keys.rootPublicKey.toString('hex'),
      caFile: keys.caFile,
      mediaHost,
      proxies: pool.proxies.map(proxy => proxy.url)
    },
    stop: async () => {
      control.close();
      control.closeAllConnections();
      server.close();
      media.close();
      media.closeAllConnections();
      await pool.stop();
      world.store.close();
    }
  };
};
