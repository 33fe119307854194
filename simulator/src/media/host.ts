/** The media host: takes uploads under `/mms/<type>/<token>` and gives the files back by direct path. */
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { KeyAndCertificate } from '../crypto/certificates.ts';
import { messageOf } from '../errors.ts';
import type { World } from '../world.ts';

const json = (response: ServerResponse, status: number, body: object): void => {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
};

const upload = async (world: World, request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> => {
  const { directPath, sha256 } = await world.blobs.store(request);
  const token = url.searchParams.get('token');
  // The token is the hash of the file: a mismatch means the upload was damaged on the way.
  if (token && Buffer.from(token, 'base64url').compare(sha256) !== 0) {
    json(response, 400, { error: 'token does not match the content' });
    return;
  }
  world.stats.mediaUploads += 1;
  json(response, 200, { url: `https://${world.mediaHost()}${directPath}`, direct_path: directPath });
};

const download = (world: World, request: IncomingMessage, response: ServerResponse, url: URL): void => {
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '');
  const start = Number(range?.[1] ?? 0);
  const blob = world.blobs.open(url.pathname, start, range?.[2] ? Number(range[2]) : undefined);
  if (!blob) {
    json(response, 404, { error: 'no such file' });
    return;
  }
  world.stats.mediaDownloads += 1;
  const headers = { 'content-type': 'application/octet-stream', ...(range ? {} : { 'content-length': blob.size }) };
  response.writeHead(range ? 206 : 200, headers);
  blob.stream.on('error', () => response.destroy());
  blob.stream.pipe(response);
};

export const createMediaHost = (world: World, certificate: KeyAndCertificate): Server =>
  createServer(certificate, (request, response) => {
    const url = new URL(request.url ?? '/', 'https://media');
    const fail = (error: unknown) => {
      world.log.warn('media_failed', { method: request.method, error: messageOf(error) });
      if (!response.headersSent) json(response, 500, { error: 'media host failed' });
      else response.destroy();
    };
    try {
      if (request.method === 'POST') upload(world, request, response, url).catch(fail);
      else if (request.method === 'GET') download(world, request, response, url);
      else json(response, 405, { error: 'GET or POST' });
    } catch (error) {
      fail(error);
    }
  });
