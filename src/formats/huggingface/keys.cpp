// Keys without effect that every transformers class accepts or that other programs add.
#include "formats/huggingface/kind.h"

namespace trireme {
namespace {

constexpr HuggingFaceInertKey common_keys[] = {
    // Origin of the file.
    {"_commit_hash"},
    {"_name_or_path"},
    {"architectures"},
    {"name_or_path"},
    {"transformers_version"},
    {"unsloth_fixed"},
    {"unsloth_version"},
    // Storage and execution of the weights, among equivalent ways.
    {"_attn_implementation"},
    {"_attn_implementation_autoset"},
    {"_attn_implementation_internal"},
    {"_experts_implementation"},
    {"_experts_implementation_internal"},
    {"_flash_attn_2_enabled"},
    {"attn_implementation"},
    {"chunk_size_feed_forward"},
    {"dtype"},
    {"experts_implementation"},
    {"gradient_checkpointing"},
    {"pretraining_tp"},
    {"torch_dtype"},
    {"torchscript"},
    {"use_bfloat16"},
    {"use_cache"},
    // Outputs returned besides logits.
    {"output_attentions"},
    {"output_hidden_states"},
    {"output_past"},
    {"output_router_logits"},
    {"return_dict"},
    {"tf_legacy_loss"},
    {"tie_last_hidden_states"},
    {"use_return_dict"},
    // Heads for other tasks, with their own tensors.
    {"_num_labels"},
    {"classifier_dropout"},
    {"finetuning_task"},
    {"id2label"},
    {"label2id"},
    {"num_labels"},
    {"problem_type"},
    {"task_specific_params"},
    // Encoder-decoder models, which are not supported.
    {"add_cross_attention", "[false]"},
    {"cross_attention_hidden_size"},
    {"decoder_start_token_id"},
    {"is_decoder"},  // BERT reads it
    {"is_encoder_decoder", "[false]"},
    {"tie_encoder_decoder", "[false]"},
    // Tokenizers.
    {"cls_token_id"},
    {"mask_token_id"},
    {"model_max_length"},
    {"prefix"},
    {"sep_token_id"},
    {"tokenizer_class"},
    {"unk_token_id"},
    // Generation settings, which older versions stored here.
    {"assistant_confidence_threshold"},
    {"assistant_lookbehind"},
    {"bad_words_ids"},
    {"begin_suppress_tokens"},
    {"cache_implementation"},
    {"diversity_penalty"},
    {"do_sample"},
    {"early_stopping"},
    {"encoder_no_repeat_ngram_size"},
    {"encoder_repetition_penalty"},
    {"epsilon_cutoff"},
    {"eta_cutoff"},
    {"exponential_decay_length_penalty"},
    {"forced_bos_token_id"},
    {"forced_eos_token_id"},
    {"length_penalty"},
    {"max_length"},
    {"max_new_tokens"},
    {"min_length"},
    {"min_p"},
    {"no_repeat_ngram_size"},
    {"num_assistant_tokens"},
    {"num_assistant_tokens_schedule"},
    {"num_beam_groups"},
    {"num_beams"},
    {"num_return_sequences"},
    {"output_scores"},
    {"penalty_alpha"},
    {"remove_invalid_values"},
    {"repetition_penalty"},
    {"return_dict_in_generate"},
    {"suppress_tokens"},
    {"target_lookbehind"},
    {"temperature"},
    {"top_k"},
    {"top_p"},
    {"typical_p"},
};

}  // namespace

std::span<const HuggingFaceInertKey> huggingface_common_keys() {
  return common_keys;
}

}  // namespace trireme
