/**
 * A model of huggingface.co, here one of 269 MB; larger ones answer better, such as HuggingFaceTB/SmolLM2-360M-Instruct.
 * Or the address of one: './model.gguf' and './model/' are files in public/.
 */
export const model = 'HuggingFaceTB/SmolLM2-135M-Instruct';

/** Which tokens stay. This one keeps what an unknown later question may ask about; 'streaming' keeps the newest. */
export const policy = 'outstandingSentences';

/** How many tokens stay, in every layer and head: the memory of the chat does not grow beyond them. */
export const budget = 512;
