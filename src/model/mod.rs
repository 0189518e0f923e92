//! Models: weights, tokenizer, chat template and generation defaults, loaded from GGUF or safetensors.
