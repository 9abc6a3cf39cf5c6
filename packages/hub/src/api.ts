/** What is used of `@huggingface/hub`, by name, so that a bundler leaves out the rest of it. */
export { listFiles, modelInfo } from '@huggingface/hub';
