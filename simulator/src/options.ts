/** The command line: every option with its default; a wrong one stops the start with a sentence. */
import { parseArgs } from 'node:util';
import { PROXY_FAULT_MODES, type ProxyFaultMode } from './faults.ts';
import type { SocksKind } from './proxies/pool.ts';

export const HELP = `Usage: simulator --state DIR [options]
       simulator socks --port P [options]

  --state DIR          everything that must survive a restart is kept here
  --host ADDRESS       where to listen (127.0.0.1)
  --control-port P     control API (0: chosen once, kept in DIR)
  --ws-port P          WebSocket server, ws and wss (0: as above)
  --media-port P       media host, https (0: as above)
  --proxies N          SOCKS5 proxies to offer (SIMULATOR_PROXIES, else 5)
  --proxy-host ADDRESS where the proxies listen (as --host)
  --socks KIND         auto, microsocks or builtin (auto: microsocks if installed)
  --ready-file FILE    written when everything is running
  --log-file FILE      log as JSON lines (standard error)

socks: one proxy alone; prints {"port"} when ready and a line per request
  --port P             port to listen on (0: any)
  --host ADDRESS       where to listen (127.0.0.1)
  --user U --password P
  --fault MODE         ${PROXY_FAULT_MODES.join(', ')}
`;

export class UsageError extends Error {}

export interface Options {
  state: string;
  host: string;
  controlPort: number;
  wsPort: number;
  mediaPort: number;
  proxies: number;
  proxyHost: string | undefined;
  socks: SocksKind;
  readyFile: string | undefined;
  logFile: string | undefined;
}

export interface SocksOptions {
  port: number;
  host: string;
  user: string | undefined;
  password: string | undefined;
  fault: ProxyFaultMode | null;
}

const text = { type: 'string' } as const;

const parse = <T extends Record<string, { type: 'string' }>>(args: string[], options: T): { [K in keyof T]?: string } => {
  try {
    return parseArgs({ args, options, allowPositionals: false }).values as { [K in keyof T]?: string };
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : String(error));
  }
};

const wholeNumber = (name: string, value: string | undefined, fallback: number, most: number): number => {
  if (value === undefined || value === '') return fallback;
  const number = Number(value);
  if (!Number.isInteger(number) || number < 0 || number > most) throw new UsageError(`${name} must be a whole number from 0 to ${most}`);
  return number;
};

export const parseOptions = (args: string[], env: NodeJS.ProcessEnv): Options => {
  const values = parse(args, {
    state: text, host: text, 'control-port': text, 'ws-port': text, 'media-port': text,
    proxies: text, 'proxy-host': text, socks: text, 'ready-file': text, 'log-file': text
  });
  if (!values.state) throw new UsageError('--state DIR is missing');
  const socks = values.socks ?? 'auto';
  if (socks !== 'auto' && socks !== 'microsocks' && socks !== 'builtin') throw new UsageError('--socks must be auto, microsocks or builtin');
  return {
    state: values.state,
    host: values.host ?? '127.0.0.1',
    controlPort: wholeNumber('--control-port', values['control-port'], 0, 65535),
    wsPort: wholeNumber('--ws-port', values['ws-port'], 0, 65535),
    mediaPort: wholeNumber('--media-port', values['media-port'], 0, 65535),
    proxies: wholeNumber('--proxies', values.proxies ?? env.SIMULATOR_PROXIES, 5, 1000),
    proxyHost: values['proxy-host'],
    socks,
    readyFile: values['ready-file'],
    logFile: values['log-file']
  };
};

export const parseSocksOptions = (args: string[]): SocksOptions => {
  const values = parse(args, { port: text, host: text, user: text, password: text, fault: text });
  const fault = values.fault ?? null;
  if (fault !== null && !PROXY_FAULT_MODES.includes(fault as ProxyFaultMode)) {
    throw new UsageError(`--fault must be one of ${PROXY_FAULT_MODES.join(', ')}`);
  }
  return {
    port: wholeNumber('--port', values.port, 0, 65535),
    host: values.host ?? '127.0.0.1',
    user: values.user,
    password: values.password,
    fault: fault as ProxyFaultMode | null
  };
};
