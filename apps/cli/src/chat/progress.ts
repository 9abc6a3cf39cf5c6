import { counted } from '@kv/core/shared';
import type { Terminal } from '../terminal.ts';

/** Shows on a terminal how much of a text has been read. */
export function progress(stderr: Terminal['stderr'], read: number, of: number): void {
  if (stderr.isTTY) stderr.write(read < of ? `\rreading: ${read} of ${counted(of, 'token')}` : '\r\x1b[K');
}
