/** So many whole numbers from `first` on. */
export function range(first: number, count: number): Uint32Array {
  const all = new Uint32Array(count); // `from` calls a function a number
  for (let i = 0; i < count; i++) all[i] = first + i;
  return all;
}
