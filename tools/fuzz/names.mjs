/** The targets of `targets.ts`, in the order in which they run. */
export default ['gguf', 'gguf-model', 'safetensors', 'tokenizer', 'template', 'policy', 'cache', 'npy', 'hub'];
