import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Requests of a connection that are not answered yet. */
const open = new WeakMap<Socket, Set<AbortController>>();

/**
 * Aborts once nobody is there to read the answer to a request: its answer was broken off, or its connection closed. An
 * answer that waits behind others on a connection does not hear of the connection's end by itself.
 */
export function goneSignal({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): AbortSignal {
  const gone = new AbortController();
  let requests = open.get(socket);
  if (!requests) {
    const all = new Set<AbortController>();
    socket.once('close', () => {
      for (const each of all) each.abort();
    });
    open.set(socket, all);
    requests = all;
  }
  const those = requests;
  those.add(gone);
  raw.once('close', () => {
    those.delete(gone);
    gone.abort();
  });
  if (socket.destroyed) gone.abort();
  return gone.signal;
}
