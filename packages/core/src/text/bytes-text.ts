/** Formats bytes: 12,345,678 as 11.8 MiB. */
export function bytesText(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  const step = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** step;
  return `${step === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[step]}`;
}
