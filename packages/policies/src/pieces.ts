/** Every piece that policy text can name, as functions: `@kv/policies/pieces`. */
export * from '@kv/allocators-ada-kv';
export * from '@kv/allocators-fixed';
export * from '@kv/allocators-mass';
export * from '@kv/allocators-across-layers';
export * from '@kv/allocators-protected-partition';
export * from '@kv/allocators-pyramidal';
export * from '@kv/allocators-schedules';
export * from '@kv/allocators-threshold';
export * from '@kv/allocators-uniform';
export * from '@kv/demotions-levels';
export * from '@kv/scorers-attention';
export * from '@kv/scorers-caote';
export * from '@kv/scorers-compactor';
export * from '@kv/scorers-expected-attention';
export * from '@kv/scorers-keys';
export * from '@kv/scorers-knorm';
export * from '@kv/scorers-random';
export * from '@kv/scorers-rarity';
export * from '@kv/scorers-reconstruction';
export * from '@kv/scorers-retrieval';
export * from '@kv/scorers-sponsorship';
export * from '@kv/scorers-triattention';
export * from '@kv/scorers-window';
export * from '@kv/selectors-branch-dissolution';
export * from '@kv/selectors-cis';
export * from '@kv/selectors-diversity';
export * from '@kv/selectors-hshare';
export * from '@kv/selectors-joint-eviction';
export * from '@kv/selectors-quota';
export * from '@kv/selectors-top-k';
export * from '@kv/selectors-whole-units';
export * from '@kv/transforms-critical';
export * from '@kv/transforms-merging';
export * from '@kv/units-chunks';
export * from '@kv/units-trunks';

// `@kv/selectors-cis` has a helper of this name
export { matching } from '@kv/scorers-sponsorship';
