/** Returns -ln of the probability of the next token under a row of logits, in nats. */
export function surprise(logits: Float32Array, next: number): number {
  let most = -Infinity,
    sum = 0;
  for (const x of logits) if (x > most) most = x;
  for (const x of logits) sum += Math.exp(x - most);
  return most + Math.log(sum) - logits[next];
}
