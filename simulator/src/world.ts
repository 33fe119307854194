/** What the parts of the simulator share. */
import type { Faults } from './faults.ts';
import type { Log } from './log.ts';
import type { BlobStore } from './media/blobs.ts';
import type { Phones } from './phones/phones.ts';
import type { Hub } from './server/hub.ts';
import type { PairCodes } from './server/pairCode.ts';
import type { Pairing } from './server/pairing.ts';
import type { Post } from './server/post.ts';
import type { Receipts } from './server/receipts.ts';
import type { DeviceLists } from './server/deviceLists.ts';
import type { Stats } from './stats.ts';
import type { Store } from './state/store.ts';

export interface World {
  store: Store;
  hub: Hub;
  post: Post;
  faults: Faults;
  stats: Stats;
  log: Log;
  blobs: BlobStore;
  deviceLists: DeviceLists;
  receipts: Receipts;
  phones: Phones;
  pairing: Pairing;
  pairCodes: PairCodes;
  /** `localhost:PORT` of the media host. */
  mediaHost: () => string;
}
