import type { Fault } from './server.ts';
import { rangeHeaders } from './server.ts';

/** Applies a fault to the first `n` requests that it answers. */
export function times(n: number, fault: Fault): Fault {
  let left = n;
  return async (...args) => {
    if (left === 0) return false;
    left--;
    if (await fault(...args)) return true;
    left++;
    return false;
  };
}

/** Announces the whole file, sends `bytes` of it and breaks the connection. */
export const cut =
  (bytes: number): Fault =>
  ({ on, range }, response, body) => {
    if (on !== 'cdn' || !body) return false;
    response.writeHead(range === undefined ? 200 : 206, rangeHeaders(range, body));
    // Headers are sent with the first bytes, and all of them before the connection breaks.
    response.write(body.bytes.subarray(body.from, body.from + bytes), () => setImmediate(() => response.destroy()));
    if (bytes === 0) response.flushHeaders();
    return true;
  };

/** Sends the whole file, whatever range was requested. */
export const ignoreRange: Fault = ({ on, range }, response, body) => {
  if (on !== 'cdn' || !body || range === undefined) return false;
  response.writeHead(200, { 'content-length': String(body.bytes.length) }).end(body.bytes);
  return true;
};

/** Sends the right number of wrong bytes. */
export const wrongBytes: Fault = ({ on, range }, response, body) => {
  if (on !== 'cdn' || !body) return false;
  response
    .writeHead(range === undefined ? 200 : 206, rangeHeaders(range, body))
    .end(Buffer.alloc(body.bytes.length - body.from, 7));
  return true;
};

/** Answers with a status if `path` matches. */
export const status =
  (code: number, path: RegExp, headers: Record<string, string> = {}): Fault =>
  (request, response) => {
    if (!path.test(`${request.on}:${request.path}`)) return false;
    response.writeHead(code, headers).end('{}');
    return true;
  };

/** Answers the CDN's requests with these headers and bytes. */
export const answer =
  (code: number, headers: Record<string, string>, bytes: Buffer | string): Fault =>
  ({ on }, response) => {
    if (on !== 'cdn') return false;
    response.writeHead(code, headers).end(bytes);
    return true;
  };

/** Sends `first` bytes, then nothing more, or the rest in steps. */
export const slow =
  (first: number, step: { readonly bytes: number; readonly ms: number } | undefined): Fault =>
  ({ on, range }, response, body) => {
    if (on !== 'cdn' || !body) return false;
    response.writeHead(range === undefined ? 200 : 206, rangeHeaders(range, body));
    let at = body.from + first;
    response.write(body.bytes.subarray(body.from, at));
    const timer =
      step &&
      setInterval(() => {
        response.write(body.bytes.subarray(at, (at += step.bytes)));
        if (at >= body.bytes.length) response.end();
      }, step.ms);
    response.on('close', () => clearInterval(timer));
    return true;
  };
