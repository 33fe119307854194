/** A tiny router for the control API: JSON in, JSON out, errors as `{error: {code, message}}`. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { badRequest, messageOf, notFound, SimulatorError } from '../errors.ts';
import type { Log } from '../log.ts';

const MAX_BODY_BYTES = 64 * 1024 * 1024;

export type Body = Record<string, unknown>;
export type Handler = (parameter: string, body: Body) => unknown;

/** `POST /phones/:/scan`; the one variable part is handed to the handler. */
export type Routes = Record<string, Handler>;

const readBody = async (request: IncomingMessage): Promise<Body> => {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_BODY_BYTES) throw new SimulatorError('TOO_LARGE', 413, 'the request is larger than 64 MB');
    chunks.push(chunk);
  }
  if (!size) return {};
  try {
    const parsed: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
    if (parsed && typeof parsed === 'object' && !Array.isArray(parsed)) return parsed as Body;
  } catch {
    // Answered below, like any other body that is not an object.
  }
  throw badRequest('the body must be a JSON object', 'BAD_JSON');
};

const find = (routes: Routes, method: string, path: string): { handler: Handler; parameter: string } => {
  const parts = path.split('/').filter(Boolean);
  const exact = routes[`${method} /${parts.join('/')}`];
  if (exact) return { handler: exact, parameter: '' };
  const pattern = `/${parts.map((part, index) => (index === 1 ? ':' : part)).join('/')}`;
  const handler = routes[`${method} ${pattern}`];
  if (handler) return { handler, parameter: decodeURIComponent(parts[1] ?? '') };
  throw notFound(`nothing here: ${method} ${path}; GET / tells what can be called`);
};

const send = (response: ServerResponse, status: number, result: unknown): void => {
  const text = typeof result === 'string';
  response.writeHead(status, { 'content-type': text ? 'text/plain; charset=utf-8' : 'application/json' });
  response.end(text ? result : JSON.stringify(result ?? {}));
};

export const createControlServer = (routes: Routes, log: Log): Server => {
  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    try {
      const { pathname } = new URL(request.url ?? '/', 'http://control');
      const { handler, parameter } = find(routes, request.method ?? 'GET', pathname);
      send(response, 200, await handler(parameter, await readBody(request)));
    } catch (error) {
      const known = error instanceof SimulatorError ? error : new SimulatorError('INTERNAL', 500, messageOf(error));
      if (known.status >= 500) log.error('control_failed', { path: request.url, code: known.code, error: known.message });
      send(response, known.status, { error: { code: known.code, message: known.message } });
    }
  };
  return createServer((request, response) => void serve(request, response));
};
