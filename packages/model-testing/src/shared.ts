export { excerpt, reference as shared, referenceJson as sharedJson } from '@kv/model-testing/reference';
