/** A real Baileys client with its credentials in memory. */
import { Agent as HttpsAgent } from 'node:https';
import {
  generateMessageIDV2,
  initAuthCreds,
  makeWASocket,
  proto,
  WA_CERT_DETAILS,
  type AuthenticationState,
  type ConnectionState,
  type SignalDataSet,
  type SignalDataTypeMap,
  type UserFacingSocketConfig,
  type WAMessage,
  type WASocket
} from 'baileys';
import { Agent as UndiciAgent } from 'undici';
import { waitUntil, type SimulatorProcess } from './process.ts';

// libsignal prints whole sessions; a test run is no place for them.
for (const name of ['log', 'info', 'warn', 'error', 'debug'] as const) console[name] = () => undefined;

const { SERVER_ACK } = proto.WebMessageInfo.Status;

const nothing = () => undefined;
const logger = { level: 'silent', child: () => logger, trace: nothing, debug: nothing, info: nothing, warn: nothing, error: nothing };

export interface Update {
  id: string;
  status: number | undefined;
  parameters: string[] | undefined;
}

/** structuredClone turns a Buffer into a plain Uint8Array, which libsignal refuses. */
const revive = (value: unknown): unknown => {
  if (value instanceof Uint8Array) return Buffer.from(value);
  if (!value || typeof value !== 'object' || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, part]) => [name, revive(part)]));
};

type KeyData = Map<string, unknown>;

const memoryAuth = (data: KeyData): AuthenticationState => {
  return {
    creds: initAuthCreds(),
    keys: {
      get: <T extends keyof SignalDataTypeMap>(type: T, ids: string[]) => {
        const found: Record<string, SignalDataTypeMap[T]> = {};
        for (const id of ids) {
          const value = data.get(`${type}/${id}`);
          if (value !== undefined) found[id] = revive(structuredClone(value)) as SignalDataTypeMap[T];
        }
        return found;
      },
      set: (changes: SignalDataSet) => {
        for (const [type, values] of Object.entries(changes)) {
          for (const [id, value] of Object.entries(values ?? {})) {
            if (value === null) data.delete(`${type}/${id}`);
            // A copy, as a file would be: libsignal goes on changing its objects.
            else data.set(`${type}/${id}`, structuredClone(value));
          }
        }
      }
    }
  };
};

export class Client {
  readonly messages: { message: WAMessage; type: string }[] = [];
  readonly updates: Update[] = [];
  readonly acks: { id: string; error: string | undefined }[] = [];
  readonly presence: string[] = [];
  private readonly sent = new Map<string, proto.IMessage>();
  qrs: string[] = [];
  state: 'connecting' | 'open' | 'close' = 'connecting';
  closeCode: number | undefined;
  closeReason = '';
  socket!: WASocket;
  reconnect = true;

  readonly auth: AuthenticationState;

  constructor(
    private readonly simulator: SimulatorProcess,
    private readonly config: Partial<UserFacingSocketConfig> = {},
    /** Everything but the credentials, by `type/id`. */
    readonly data: KeyData = new Map()
  ) {
    this.auth = memoryAuth(data);
  }

  /** Goes back to an older state, as restoring a backup does. */
  restore(older: KeyData): void {
    this.data.clear();
    for (const [key, value] of older) this.data.set(key, value);
  }

  /** Two copies of undici's types exist; at run time it is the same interface. */
  downloadOptions(): RequestInit {
    return { dispatcher: new UndiciAgent({ connect: { ca: this.simulator.ca } }) } as unknown as RequestInit;
  }

  connect(): this {
    const { ready, ca } = this.simulator;
    WA_CERT_DETAILS.PUBLIC_KEY = Buffer.from(ready.rootPublicKey, 'hex');
    const agent = new HttpsAgent({ ca });
    this.state = 'connecting';
    this.closeCode = undefined;
    const socket = makeWASocket({
      auth: this.auth,
      logger,
      waWebSocketUrl: ready.websocketUrl,
      agent,
      fetchAgent: agent,
      options: this.downloadOptions(),
      syncFullHistory: false,
      connectTimeoutMs: 3_000,
      defaultQueryTimeoutMs: 5_000,
      // By id alone: Baileys' own cache is keyed by chat and misses the retry request of a linked device.
      getMessage: async ({ id }) => this.sent.get(id ?? ''),
      ...this.config
    });
    this.socket = socket;
    socket.ev.on('creds.update', update => Object.assign(this.auth.creds, update));
    socket.ev.on('connection.update', update => this.onConnection(socket, update));
    socket.ev.on('messages.upsert', ({ messages, type }) => {
      for (const message of messages) {
        this.messages.push({ message, type });
        // A receipt that comes while the own message is still buffered is merged into it: no update follows.
        const status = message.status ?? undefined;
        if (message.key.fromMe && status && status > SERVER_ACK) this.updates.push({ id: message.key.id ?? '', status, parameters: undefined });
      }
    });
    socket.ev.on('messages.update', list => {
      for (const { key, update } of list) {
        this.updates.push({ id: key.id ?? '', status: update.status ?? undefined, parameters: update.messageStubParameters ?? undefined });
      }
    });
    socket.ev.on('presence.update', ({ presences }) => this.presence.push(...Object.values(presences).map(p => p.lastKnownPresence)));
    socket.ws.on('CB:ack,class:message', (node: { attrs: Record<string, string> }) =>
      this.acks.push({ id: node.attrs.id ?? '', error: node.attrs.error })
    );
    return this;
  }

  private onConnection(socket: WASocket, update: Partial<ConnectionState>): void {
    if (socket !== this.socket) return;
    if (update.qr) this.qrs.push(update.qr);
    if (!update.connection) return;
    this.state = update.connection;
    if (update.connection !== 'close') return;
    const error = update.lastDisconnect?.error as { output?: { statusCode?: number }; message?: string } | undefined;
    this.closeCode = error?.output?.statusCode;
    this.closeReason = error?.message ?? '';
    if (this.closeCode === 515 && this.reconnect) this.connect();
  }

  async pair(phone: string): Promise<this> {
    this.connect();
    const qr = await waitUntil('QR', () => this.qrs.at(-1));
    await this.simulator.post(`/phones/${phone}/scan`, { qr });
    return this.opened();
  }

  async opened(): Promise<this> {
    await waitUntil('connection is open', () => this.state === 'open');
    return this;
  }

  async closed(): Promise<number | undefined> {
    await waitUntil('connection is closed', () => this.state === 'close', 8_000);
    return this.closeCode;
  }

  async close(): Promise<void> {
    await this.socket?.end(undefined);
  }

  /** A second process with a copied folder. */
  copy(): Client {
    const other = new Client(this.simulator, this.config, new Map(this.data));
    Object.assign(other.auth.creds, this.auth.creds);
    return other;
  }

  async send(to: string, text: string, id = generateMessageIDV2(this.auth.creds.me?.id)): Promise<string> {
    // Kept before sending: a retry request can be here before sendMessage has returned.
    this.sent.set(id, { extendedTextMessage: { text } });
    await this.socket.sendMessage(`${to}@s.whatsapp.net`, { text }, { messageId: id });
    return id;
  }

  ack(id: string) {
    return waitUntil(`ack of ${id}`, () => this.acks.find(ack => ack.id === id));
  }

  status(id: string, status: number): Promise<Update> {
    return waitUntil(`status ${status} of ${id}`, () => this.updates.find(update => update.id === id && update.status === status));
  }

  /** A text that was received, whatever its wrapping. */
  text(text: string): Promise<{ message: WAMessage; type: string }> {
    return waitUntil(`text "${text}"`, () =>
      this.messages.find(({ message: { message } }) => (message?.conversation ?? message?.extendedTextMessage?.text) === text)
    );
  }
}
