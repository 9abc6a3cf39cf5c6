import type * as fs from 'node:fs';

/** Failure of a disk operation. */
export type DiskFault = 'ENOSPC' | 'EIO' | 'EACCES' | 'EROFS' | 'short' | 'kill';
export const FAULTS: readonly DiskFault[] = ['ENOSPC', 'EIO', 'EACCES', 'EROFS', 'short', 'kill'];

/** Operations that change something or may fail half-way; all others only read state. */
const WATCHED = [
  'openSync',
  'writeSync',
  'fsyncSync',
  'ftruncateSync',
  'renameSync',
  'rmSync',
  'mkdirSync',
  'closeSync',
  'readFileSync',
] as const;

let plan: { readonly at: number; readonly fault: DiskFault; readonly within: string } | undefined;
let done = 0;
let struck = false;

/**
 * Makes operation number `at` fail within the folder `within`; `kill` fails all later ones too, so that nothing is
 * cleaned up.
 */
export function strike(at: number, fault: DiskFault, within: string): void {
  plan = { at, fault, within };
  done = 0;
  struck = false;
}

/** Ends the fault; returns whether it was reached. */
export function calm(): boolean {
  plan = undefined;
  return struck;
}

/** Returns the file system with the requested fault. */
export function faulty(actual: typeof fs): typeof fs {
  const open = new Set<number>();
  const wrapped = WATCHED.map((name) => {
    const work = actual[name] as (...args: unknown[]) => unknown;
    const strikes = (...args: unknown[]): unknown => {
      const ours = typeof args[0] === 'number' ? open.has(args[0]) : String(args[0]).startsWith(plan?.within ?? '\0');
      const now = plan !== undefined && ours ? done++ : -1;
      const hit = plan !== undefined && (now === plan.at || (plan.fault === 'kill' && now > plan.at));
      struck ||= hit;
      if (hit && plan?.fault === 'short') {
        // A system may write fewer bytes than it was given.
        if (name !== 'writeSync') return work(...args);
        const [file, bytes, offset = 0, length = (bytes as Uint8Array).length] = args as [
          number,
          Uint8Array,
          number?,
          number?,
        ];
        return work(file, bytes, offset, Math.max(1, length >> 1));
      }
      if (hit && plan !== undefined && name === 'writeSync' && plan.fault !== 'EACCES') {
        // A failing write has often written a part.
        const [file, bytes] = args as [number, Uint8Array];
        work(file, bytes, 0, bytes.length >> 1);
      }
      if (hit) {
        if (name === 'closeSync') work(...args);
        const code = plan?.fault === 'kill' ? 'EKILLED' : plan?.fault;
        throw Object.assign(new Error(`${code}: ${name}`), { code, syscall: name.replace('Sync', '') });
      }
      const result = work(...args);
      if (name === 'openSync' && plan !== undefined && ours) open.add(result as number);
      if (name === 'closeSync') open.delete(args[0] as number);
      return result;
    };
    return [name, strikes] as const;
  });
  const mocked = { ...actual, ...Object.fromEntries(wrapped) };
  return { ...mocked, default: mocked } as typeof fs;
}
