import { createServer, request as ask } from 'node:http';
import type { IncomingMessage } from 'node:http';
import { connect, type AddressInfo } from 'node:net';

/** A proxy on the loopback: for requests with whole URLs, and for tunnels. */
export interface TestProxy {
  /** URL with a user and password. */
  readonly url: string;
  /** `GET http://...` or `CONNECT host:port`, with the client's credentials. */
  readonly seen: { readonly line: string; readonly authorization: string | undefined }[];
  close(): Promise<void>;
}

export async function startProxy(user = 'me:secret'): Promise<TestProxy> {
  const seen: TestProxy['seen'][number][] = [];
  const note = ({ method, url, headers }: IncomingMessage): void =>
    void seen.push({ line: `${method} ${url}`, authorization: headers['proxy-authorization'] });
  const server = createServer((request, response) => {
    note(request);
    const { 'proxy-authorization': _, ...headers } = request.headers;
    ask(request.url!, { method: request.method, headers }, (answer) => {
      response.writeHead(answer.statusCode!, answer.headers);
      answer.pipe(response);
    })
      .on('error', () => response.destroy())
      .end();
  });
  server.on('connect', (request: IncomingMessage, socket) => {
    note(request);
    const { hostname, port } = new URL(`http://${request.url}`),
      there = connect(Number(port), hostname, () => {
        socket.write('HTTP/1.1 200 OK\r\n\r\n');
        there.pipe(socket).pipe(there);
      });
    for (const end of [there, socket])
      end.on('error', () => {
        there.destroy();
        socket.destroy();
      });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  return { url: `http://${user}@127.0.0.1:${(server.address() as AddressInfo).port}`, seen, close };
}
