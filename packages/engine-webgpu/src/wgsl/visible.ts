import { TANH } from './tanh.ts';

/** Variants of a kernel over scores. */
export interface ScoreKind {
  /** Whether a buffer `mask` says which slots are hidden. */
  readonly masked: boolean;
  /** Whether slots have biases, which lie in the buffer of the mask, after it. @defaultValue false */
  readonly biased?: boolean;
  /** One query, at the position `own`: there are no `rows`. */
  readonly single?: boolean;
}

/** The lowest finite f32, which stands for a hidden score, since WGSL may assume that there are no infinities. */
export const LOWEST = '-0x1.fffffep+127f';

/** Scalars that `is_seen` and `scored` read; a `cap` of 0 caps nothing. Biases begin at `bias_at`, a head's `bias_step` apart. */
export const scoreScalars = {
  m: 'u32',
  heads: 'u32',
  kv_heads: 'u32',
  capacity: 'u32',
  views: 'u32',
  window: 'u32',
  mask_rows: 'u32',
  mask_step: 'u32',
  scale: 'f32',
  cap: 'f32',
  bias_at: 'u32',
  bias_step: 'u32',
} as const;

export type ScoreBuffer = 'positions' | 'lengths' | 'rows' | 'mask';
export const scoreBuffers = ({
  masked,
  biased = false,
  single = false,
}: ScoreKind): {
  readonly positions: string;
  readonly lengths: string;
  readonly rows?: string;
  readonly mask?: string;
} => ({
  positions: 'u32',
  lengths: 'u32',
  ...(!single && { rows: 'u32' }),
  ...((masked || biased) && { mask: 'u32' }),
});

/**
 * Which slots a query sees, and what its score becomes. `rows` holds for each query its position and `views` pairs
 * (from, below) of positions that it does not see. A slot at a later position is never seen, the query's own always;
 * others unless they are `window` or more positions back, in one of the pairs, or 0 in the mask, whose rows are those
 * of query heads, of KV heads, or one. `score_of` is the score of a slot, with its bias where slots have them.
 */
export const visibilitySource = ({ masked, biased = false, single = false }: ScoreKind): string => /* wgsl */ `${TANH}
fn position_of(r: u32) -> u32 { return ${single ? 'params.own' : 'rows[r * (1u + 2u * params.views)]'}; }
fn is_seen(r: u32, h: u32, g: u32, j: u32) -> bool {
  let own = position_of(r);
  let position = positions[g * params.capacity + j];
  if (position >= own) { return position == own; }
  if (own - position >= params.window) { return false; }
  ${
    single
      ? ''
      : /* wgsl */ `for (var v = 0u; v < params.views; v++) {
    let at = r * (1u + 2u * params.views) + 1u + 2u * v;
    if (position >= rows[at] && position < rows[at + 1u]) { return false; }
  }`
  }
  ${masked ? 'return (mask[h * params.mask_rows / params.heads * params.mask_step + j] << 1u) != 0u;' : 'return true;'}
}
fn scored(product: f32) -> f32 {
  if (params.cap > 0.0) { return params.cap * tanh_of(product * params.scale / params.cap); }
  return product * params.scale;
}
fn score_of(product: f32, g: u32, j: u32) -> f32 { return scored(product)${biased ? ' + bitcast<f32>(mask[params.bias_at + g * params.bias_step + j])' : ''}; }`;
