import ndarray from 'ndarray';
import ops from 'ndarray-ops';

/** (1 - base^(power (l - s) / (N - s))) t for layers l = 1 .. N, not rounded, through logarithms: `[N]`. */
export function boundOracle(N: number, base: number, power: number, t: number): ndarray.NdArray<Float64Array> {
  const start = Math.floor(0.75 * N),
    out = ndarray(
      Float64Array.from({ length: N }, (_, i) => Math.max(i + 1, start) - start),
      [N],
    );
  ops.mulseq(out, (power * Math.log(base)) / (N - start));
  ops.expeq(out);
  ops.negeq(out);
  ops.addseq(out, 1);
  ops.mulseq(out, t);
  return out;
}
