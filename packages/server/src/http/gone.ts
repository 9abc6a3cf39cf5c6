import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Requests of a connection that are not answered yet. */
const open = new WeakMap<Socket, Set<AbortController>>();
const signals = new WeakMap<ServerResponse, AbortSignal>();

/**
 * Aborts once nobody is there to read the answer to a request: its answer was broken off, or its connection closed. An
 * answer that waits behind others on a connection does not hear of the connection's end by itself. It also aborts once
 * the answer has been taken.
 */
export function goneSignal({ raw: { socket } }: FastifyRequest, { raw }: FastifyReply): AbortSignal {
  const known = signals.get(raw);
  if (known) return known;
  const gone = new AbortController();
  signals.set(raw, gone.signal);
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
