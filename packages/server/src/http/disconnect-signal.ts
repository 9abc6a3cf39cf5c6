import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { FastifyReply, FastifyRequest } from 'fastify';

/** Unanswered requests of each connection. */
const open = new WeakMap<Socket, Set<AbortController>>();
const signals = new WeakMap<ServerResponse, AbortSignal>();

/**
 * Returns a signal that aborts once the client is gone (response aborted or connection closed) or the answer was sent.
 * Pipelined answers that wait for earlier ones get no close event of their own, so the connection is watched.
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
