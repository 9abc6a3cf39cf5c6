export { chatIds, renderedAfter, renderedIds } from './chat/chat-ids.ts';
export { promptRoles, roleRanges, type PromptRole } from './chat/role-ranges.ts';
export type { ChatMessage, ChatOptions, ChatTemplate, RenderedChat } from './chat/chat-template.ts';
export { cutTurn } from './chat/cut-turn.ts';
export type { CutTurn } from './chat/cut-turn.ts';
export { expectRead, misreadVariables, readVariables, unreadVariables } from './chat/template-variables.ts';
export type { TemplateVariables } from './chat/template-variables.ts';
export type { AnswerStructure, AnswerTag } from './chat/tools/structure.ts';
export type { AnswerPart, AnswerReader, ToolChoice, ToolFormat, ToolFunction } from './chat/tools/tool-format.ts';
export { templateMessages } from './chat/tools/template-messages.ts';
export type { ConversationMessage, TextPart } from './chat/tools/template-messages.ts';
export { answersOf, toolFormatOf } from './chat/tools/tool-format-of.ts';
export type { AnswerFormat } from './chat/tools/tool-format-of.ts';
export { turnEnd } from './chat/turn-end.ts';
export { architectures } from './config/architectures.ts';
export type { Architecture, ArchitectureName } from './config/architectures.ts';
export { parseConfig } from './config/config.ts';
export type { AttentionConfig, ModelConfig } from './config/config.ts';
export type { ExpertActivation, ExpertsConfig, Routing } from './config/experts.ts';
export { configFromGguf } from './config/gguf-config.ts';
export {
  commonHeads,
  deltaChannels,
  headDims,
  headsOf,
  keepsSlots,
  onlyAttention,
  slotHeads,
  slotLayers,
  slotRows,
  spaceChannels,
  stateNumbers,
} from './config/mixers.ts';
export type {
  AttentionMixer,
  GatedDelta,
  Heads,
  KvHeads,
  Mixer,
  ShortConvolution,
  StateSpace,
} from './config/mixers.ts';
export type { RopeConfig } from './config/rope-config.ts';
export { TWICE_E2M1, UNEVEN, mxfp4Scale } from './format/blocks.ts';
export { openGguf } from './format/gguf-shards.ts';
export { readGguf } from './format/gguf.ts';
export { halves } from './format/halves.ts';
export { sixBits } from './format/k-blocks.ts';
export { dense, denseRows, matrixOf, matrixRows, ownBytes, unreadRows } from './format/matrix.ts';
export type { Matrix, MatrixPart, RowsRead } from './format/matrix.ts';
export { readSafetensors } from './format/safetensors.ts';
export type { CheckpointSize, CheckpointTensors } from './format/tensor-file.ts';
export { tensorTypes, toFloat32 } from './format/tensor-types.ts';
export type { TensorType } from './format/tensor-types.ts';
export { embeddedFolder } from './load/embedded.ts';
export { expectNamed, withFingerprint } from './load/fingerprint.ts';
export type { FileIdentity } from './load/fingerprint.ts';
export { configJson, HUB_FILES } from './load/hub-files.ts';
export { blobsOf, openCheckpoint } from './load/load.ts';
export type { Checkpoint } from './load/load.ts';
export { sidecarBlob, sidecarFile, sidecarPath, sidecars } from './load/sidecar.ts';
export type { ExpertNorms, ExpertWeights } from './load/expert-weights.ts';
export { checkpointWeights, shapeWeights } from './load/weights.ts';
export { ffnOf } from './config/config.ts';
export type {
  ConvolutionWeights,
  DeltaWeights,
  FinishWeights,
  LayerInputWeights,
  PerLayerWeights,
  ProjectWeights,
  SpaceWeights,
  Weights,
} from './load/weights.ts';
export { builtin } from './read/builtin.ts';
export { OPEN } from './options.ts';
export type { OpenOptions } from './options.ts';
export type { DownloadOptions } from './read/download.ts';
export { object, show } from './read/fields.ts';
export type { JsonFields } from './read/fields.ts';
export { concatArrays } from './read/join-bytes.ts';
export { notJson, parseJson } from './read/json.ts';
export { keepNumbers, numberSource, parseExactJson, writeExactJson } from './read/json-numbers.ts';
export { bytesSource, fileSource, urlSource } from './read/source.ts';
export type { FileBlob, ByteSource } from './read/source.ts';
export { ggufTokenizer, ggufTokenizerJson } from './tokenizer/gguf.ts';
export type { DecoderOptions, EncodeOptions, TokenEncoding, StreamDecoder, Tokenizer } from './tokenizer/interface.ts';
export { createTokenizer } from './tokenizer/tokenizer.ts';
