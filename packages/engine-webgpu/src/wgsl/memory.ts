/** ln(1 + e^x), by the series of ln((1 + s) / (1 - s)), so that a small e^x keeps its digits. */
export const SOFTPLUS: string = /* wgsl */ `
fn softplus_of(x: f32) -> f32 {
  let e = exp(-abs(x));
  let s = e / (2.0 + e);
  let square = s * s;
  var y = 1.0 / 15.0;
  for (var n = 13; n > 0; n -= 2) { y = y * square + 1.0 / f32(n); }
  return max(x, 0.0) + 2.0 * s * y;
}`;

/**
 * WGSL for a column of a memory S, `[key_dim, value_dim]` from element `first` on, which is read from `state` before the
 * first token and then from `next`, of which no thread reads another's column. `take_up(r, first, g, change, k, q)` is token
 * r's step: `S = g S + k change^T`; it returns S^T q. Numbers of k and q begin at these elements of `mixed` and are multiplied
 * by `by_k` and `by_q`.
 */
export const MEMORY: string = /* wgsl */ `
fn memory(r: u32, at: u32) -> f32 {
  if (r == 0u) { return state[at]; }
  return next[at];
}
fn take_up(r: u32, first: u32, g: f32, change: f32, k: u32, by_k: f32, q: u32, by_q: f32) -> f32 {
  var read = 0.0;
  for (var i = 0u; i < params.key_dim; i++) {
    let at = first + i * params.value_dim;
    let new_ = g * memory(r, at) + mixed[k + i] * by_k * change;
    next[at] = new_;
    read += new_ * (mixed[q + i] * by_q);
  }
  return read;
}`;
