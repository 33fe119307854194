/** Log as JSON lines: an event name and fields; never message text, keys or whole phone numbers. */
import { openSync, writeSync } from 'node:fs';

export type Fields = Record<string, unknown>;
type Level = 'info' | 'warn' | 'error';

export interface Log {
  info(event: string, fields?: Fields): void;
  warn(event: string, fields?: Fields): void;
  error(event: string, fields?: Fields): void;
}

/** The last four digits are enough to follow a phone through a log. */
export const shortPhone = (phone: string): string => `…${phone.slice(-4)}`;

export const openLog = (file?: string): Log => {
  const fd = file ? openSync(file, 'a', 0o600) : 2;
  const write = (level: Level, event: string, fields: Fields = {}) => {
    const line = `${JSON.stringify({ at: new Date().toISOString(), level, event, ...fields })}\n`;
    try {
      writeSync(fd, line);
    } catch {
      // A full disk or a closed terminal must not take the simulator down.
    }
  };
  return {
    info: (event, fields) => write('info', event, fields),
    warn: (event, fields) => write('warn', event, fields),
    error: (event, fields) => write('error', event, fields)
  };
};

/** libsignal prints whole session objects, private keys included, to the console: none of it may get out. */
export const silenceConsole = (): void => {
  const nothing = () => undefined;
  console.log = nothing;
  console.info = nothing;
  console.warn = nothing;
  console.error = nothing;
  console.debug = nothing;
};
