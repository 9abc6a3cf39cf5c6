/**
 * Returns workgroups as a grid of at most `limit` per dimension (65,535 by default in WebGPU); kernels skip those
 * beyond `groups`.
 */
export function grid(groups: number, limit: number): [x: number, y: number] {
  const y = Math.ceil(groups / limit);
  return [Math.ceil(groups / y), y];
}
