/** Runs commands whose errors are the backend's own. */
export type OwnCommands = <T>(commands: () => T) => T;

/** Errors of the backend's own commands on a device that others use too. */
export interface ErrorScopes {
  readonly run: OwnCommands;
  /** Waits until the errors of all commands so far are known. */
  settled(): Promise<unknown>;
}

const FILTERS = ['internal', 'out-of-memory', 'validation'] as const;

/** @param report receives each error */
export function errorScopes(device: GPUDevice, report: (error: GPUError) => void): ErrorScopes {
  const pending = new Set<Promise<void>>();
  return {
    run(commands) {
      for (const filter of FILTERS) device.pushErrorScope(filter);
      try {
        return commands();
      } finally {
        for (const _ of FILTERS) {
          const popped = device
            .popErrorScope()
            .then((error) => error && report(error))
            .catch(() => {}) // a lost device, which is reported
            .then(() => void pending.delete(popped));
          pending.add(popped);
        }
      }
    },
    settled: () => Promise.all(pending),
  };
}
