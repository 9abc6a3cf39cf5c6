/** Limits that a test lowers. */
export type LowLimits = Readonly<Partial<Record<'maxBufferSize' | 'maxStorageBufferBindingSize', number>>>;

/** Returns the device with lower limits: a buffer or a binding beyond them throws, where a device reports it later. */
export function limitedDevice(device: GPUDevice, low: LowLimits): GPUDevice {
  const limits = new Proxy(device.limits, {
    get: (own, name) => low[name as keyof LowLimits] ?? Reflect.get(own, name),
  });
  const changed: Partial<GPUDevice> = {
    limits,
    createBuffer(wanted) {
      if (wanted.size > limits.maxBufferSize) throw new Error(`a buffer of ${wanted.size} bytes`);
      return device.createBuffer(wanted);
    },
    createBindGroup(wanted) {
      for (const { resource } of wanted.entries)
        if ('buffer' in resource) {
          const bytes = resource.size ?? resource.buffer.size;
          if (bytes > limits.maxStorageBufferBindingSize || bytes % 4 > 0)
            throw new Error(`a binding of ${bytes} bytes`);
        }
      return device.createBindGroup(wanted);
    },
  };
  return new Proxy(device, {
    get(own, name) {
      if (name in changed) return changed[name as keyof GPUDevice];
      const value: unknown = Reflect.get(own, name);
      return typeof value === 'function' ? (value.bind(own) as unknown) : value;
    },
  });
}
