/** -ln of the probability that a row of logits gives the next token, nats. */
export function surprise(logits: Float32Array, next: number): number {
  let most = -Infinity,
    sum = 0;
  for (const x of logits) if (x > most) most = x;
  for (const x of logits) sum += Math.exp(x - most);
  return most + Math.log(sum) - logits[next];
}
