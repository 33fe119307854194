/** The media host: takes uploads under `/mms/<type>/<token>` and gives the files back by direct path. */
import { createServer, type Server } from 'node:https';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
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

/** Half of the file, then nothing for a while, then the rest. */
async function* stalling(source: AsyncIterable<Buffer>, half: number, ms: number): AsyncGenerator<Buffer> {
  let given = 0;
  for await (const chunk of source) {
    const room = half - given;
    given += chunk.length;
    if (room < 0 || room >= chunk.length) {
      yield chunk;
      continue;
    }
    yield chunk.subarray(0, room);
    await pause(ms);
    yield chunk.subarray(room);
  }
}

const download = (world: World, request: IncomingMessage, response: ServerResponse, url: URL): void => {
  const status = world.faults.mediaStatus.take(undefined);
  if (status !== undefined) {
    json(response, status, { error: 'a fault on purpose' });
    return;
  }
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
  const stallMs = world.faults.mediaStallMs.take(undefined);
  const stream = stallMs === undefined ? blob.stream : Readable.from(stalling(blob.stream, Math.floor(blob.size / 2), stallMs));
  stream.on('error', () => response.destroy());
  stream.pipe(response);
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
