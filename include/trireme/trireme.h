/* The C interface of Trireme, for bindings of other languages. `python/trireme` uses it.
 *
 * Version. TRIREME_C_VERSION counts incompatible changes of this file; compare it with
 * trireme_c_version() of the loaded library. New functions and structs do not change the version;
 * option structs begin with their size, so that they can grow.
 *
 * Errors. Functions that can fail return a trireme_status: TRIREME_OK, or the exit code that the
 * program would return. trireme_last_error() then returns the message of the last failed call of
 * this thread. Outputs are written only if the call succeeds.
 *
 * Ownership. The caller owns a handle and passes it to its trireme_..._close(), which also accepts
 * null. Memory that a function allocates for the caller (`char**`, `int32_t**`) is freed with
 * trireme_free(). Pointers to const that a function returns are valid as long as the handle.
 * Arguments are copied or read during the call, unless their description says otherwise.
 *
 * Strings are UTF-8 and null-terminated; strings with a length or offsets may contain null bytes.
 * Arrays are row-major and contiguous; their shapes are given in brackets.
 *
 * Threads. Different threads may use different handles, with two exceptions: only one thread at a
 * time may use a job and its trainers, and only one call at a time may compute (training,
 * evaluation, logits, generation), because all share one thread pool. Several threads may use the
 * same tokenizer or token file. Between calls, only trainers do work in the background: they read
 * samples ahead and write checkpoints. After a call of this interface, do not use it in a child
 * process of fork().
 */
#ifndef TRIREME_TRIREME_H
#define TRIREME_TRIREME_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TRIREME_C_VERSION 1
#define TRIREME_C_API __attribute__((visibility("default")))

typedef enum trireme_status {
  TRIREME_OK = 0,
  TRIREME_FAILED = 1,      /* a failure while running: a full disk, a NaN, a lost process */
  TRIREME_BAD_INPUT = 2,   /* a file, a key or an argument is wrong */
  TRIREME_INTERRUPTED = 3, /* a signal or a callback requested the end */
} trireme_status;

TRIREME_C_API int32_t trireme_c_version(void);
TRIREME_C_API const char* trireme_version(void); /* of the program: "0.2.0" */
/* Message of this thread's last failure, valid until its next one; "" before the first. */
TRIREME_C_API const char* trireme_last_error(void);
TRIREME_C_API void trireme_free(void* memory);

/* --- configuration: the keys of docs/configuration.md ---
 * Several threads may read one configuration. Rejected: unknown keys, wrong types, values out of
 * range. Settings that contradict each other are rejected by trainers and plans. */

typedef struct trireme_config trireme_config;

/* Parses TOML; error messages call it `name` (null: "the configuration"). `overrides`: `count`
 * strings "section.key=value", applied in order. */
TRIREME_C_API trireme_status trireme_config_parse(const char* toml, const char* name,
                                                  const char* const* overrides, size_t count,
                                                  trireme_config** config);
TRIREME_C_API trireme_status trireme_config_load(const char* file, const char* const* overrides,
                                                 size_t count, trireme_config** config);
TRIREME_C_API void trireme_config_close(trireme_config* config);
/* The whole configuration, defaults included, as TOML or as JSON: {"train": {"iters": 100, ...}}.
 */
TRIREME_C_API trireme_status trireme_config_toml(const trireme_config* config, char** text);
TRIREME_C_API trireme_status trireme_config_json(const trireme_config* config, char** text);

/* --- a job: this process, or all processes that mpirun or srun started together ---
 * Create it before anything that starts threads. A single process can create any number of jobs;
 * each of several processes can create one. */

typedef struct trireme_job trireme_job;

/* Uses run.device and train.timeout_s of the configuration; null: "cpu" and ten minutes. */
TRIREME_C_API trireme_status trireme_job_open(const trireme_config* config, trireme_job** job);
TRIREME_C_API int32_t trireme_job_rank(const trireme_job* job);
TRIREME_C_API int32_t trireme_job_size(const trireme_job* job);
TRIREME_C_API int32_t trireme_job_local_rank(const trireme_job* job); /* on this machine */
/* Sums `values` [count] over all processes in rank order, in place: the same bits on each process.
 */
TRIREME_C_API trireme_status trireme_job_sum(trireme_job* job, double* values, size_t count);
/* Gathers one value of each process, by rank: `all` [size of the job]. */
TRIREME_C_API trireme_status trireme_job_gather(trireme_job* job, double value, double* all);
TRIREME_C_API trireme_status trireme_job_barrier(trireme_job* job);
/* Ends a job of several processes: waits until all have called it. One process: does nothing. */
TRIREME_C_API trireme_status trireme_job_leave(trireme_job* job);
/* Aborts a job of several processes: one of them prints the message, all exit with the code, and
 * the call does not return. One process: does nothing. Call it after the caller's own errors and
 * after errors of a trainer, because the other processes would otherwise wait for this one. */
TRIREME_C_API void trireme_job_abort(trireme_job* job, int32_t code, const char* message);
TRIREME_C_API void trireme_job_close(trireme_job* job);

/* --- training --- */

/* One sample to be filled in: arrays of `length` elements in the trainer's memory. */
typedef struct trireme_sample {
  int64_t length;         /* model.seq_length */
  int32_t* tokens;        /* input ids; initially 0 */
  int32_t* targets;       /* the id that each position predicts; initially 0 */
  float* loss_weights;    /* loss mask, 0 or 1; initially 1 */
  int32_t* positions;     /* initially 0, 1, 2 ...; others need data.reset_position_ids */
  int32_t* first_visible; /* initially 0; others need data.reset_attention_mask */
} trireme_sample;

/* A fixed, ordered list of samples that the program provides. A step takes the next
 * train.global_batch_size of them, on any number of processes. */
typedef struct trireme_samples_of_program {
  int64_t size;
  const char* identity; /* distinguishes this dataset from others; may be null */
  /* Writes sample `index`; a result other than 0 fails the step. Must be thread-safe: background
   * threads call it concurrently, ahead of training. */
  int32_t (*fill)(void* user, int64_t index, const trireme_sample* sample);
  void* user; /* must outlive the trainer */
} trireme_samples_of_program;

typedef struct trireme_trainer_options {
  size_t size;                                  /* sizeof(trireme_trainer_options) */
  const trireme_samples_of_program* train_data; /* null: from [data] */
  const trireme_samples_of_program* valid_data; /* with train_data */
  /* Receives the printed lines on the first process; null: standard output. */
  void (*log)(void* user, const char* line);
  /* Returns the rate of a step; a pure function. Null: the rate is `configured`, by [optimizer]. */
  double (*learning_rate)(void* user, int64_t step, int64_t steps, int64_t samples, int64_t tokens,
                          double configured);
  void* user;
  /* While the trainer exists, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end the process but make
   * trireme_trainer_should_stop() true. */
  int32_t note_signals;
} trireme_trainer_options;

typedef struct trireme_step {
  int64_t step; /* number of the step, from 1 */
  double loss;  /* mean over the predicted tokens of the global batch */
  double grad_norm, learning_rate;
  int32_t finite; /* 0: fp16 gradients overflowed and the step was skipped */
} trireme_step;

typedef struct trireme_progress {
  int64_t step, steps; /* steps done; steps of the whole run */
  int64_t samples, tokens;
  int64_t planned_bytes; /* memory of this process */
} trireme_progress;

typedef enum trireme_end {
  TRIREME_END_DONE = 0,        /* all steps are done */
  TRIREME_END_STOPPED = 1,     /* train.exit_interval, exit_duration_minutes, or by the program */
  TRIREME_END_INTERRUPTED = 2, /* by a signal */
} trireme_end;

typedef struct trireme_summary {
  int64_t steps;
  double loss, valid_loss; /* of the last step; of the last evaluation, or 0 */
  double tokens_per_second, seconds;
  int32_t end; /* trireme_end */
} trireme_summary;

typedef struct trireme_trainer trireme_trainer;

/* Checks the configuration, plans and allocates memory, opens the data, and resumes from the newest
 * checkpoint of run.dir. The job must outlive the trainer; `options` may be null. All processes of
 * a job make the same calls in the same order. After an error of trireme_trainer_step(), the
 * trainer can only be closed; its checkpoints are unaffected. */
TRIREME_C_API trireme_status trireme_trainer_open(trireme_job* job, const trireme_config* config,
                                                  const trireme_trainer_options* options,
                                                  trireme_trainer** trainer);
TRIREME_C_API trireme_status trireme_trainer_step(trireme_trainer* trainer, trireme_step* result);
TRIREME_C_API trireme_status trireme_trainer_evaluate(trireme_trainer* trainer, double* loss);
TRIREME_C_API trireme_status trireme_trainer_save(trireme_trainer* trainer);
TRIREME_C_API trireme_status trireme_trainer_should_stop(trireme_trainer* trainer, int32_t* stop);
/* Writes `count` metrics of the last step to metrics.jsonl and TensorBoard. */
TRIREME_C_API trireme_status trireme_trainer_log(trireme_trainer* trainer, const char* const* names,
                                                 const double* values, size_t count);
TRIREME_C_API void trireme_trainer_progress(const trireme_trainer* trainer,
                                            trireme_progress* progress);
/* The configuration in use, with values that follow from the tokenizer. */
TRIREME_C_API trireme_status trireme_trainer_config(const trireme_trainer* trainer,
                                                    trireme_config** config);
/* Waits for writes in progress and records in run.dir how the run ended. */
TRIREME_C_API trireme_status trireme_trainer_finish(trireme_trainer* trainer,
                                                    trireme_summary* summary);
/* Runs all remaining steps with evaluations and checkpoints, like `trireme train`. The signals of
 * note_signals end the call after the current step, with a checkpoint. */
TRIREME_C_API trireme_status trireme_trainer_run(trireme_trainer* trainer,
                                                 trireme_summary* summary);
/* If neither finish() nor run() completed, status.json records the run as failed. */
TRIREME_C_API void trireme_trainer_close(trireme_trainer* trainer);

/* --- trained models ---
 * There is one copy of the weights, either for logits and likelihoods or for generation; switching
 * between the two reads them again. */

typedef struct trireme_model trireme_model;

typedef struct trireme_model_info {
  int64_t vocab_size, seq_length;
  int64_t max_length; /* maximum sequence length in tokens; 0: unlimited */
  int64_t step;       /* training step of the checkpoint */
  int32_t next_token; /* 0: a masked language model such as BERT */
} trireme_model_info;

/* `path`: the folder of a run, of checkpoints, of one checkpoint, or of another program in any
 * format that `trireme convert` reads. The latter is converted into a temporary folder, which
 * trireme_model_close() removes. `overrides`: as in trireme_config_parse(), e.g.
 * "run.precision=fp32"; for another program's folder, those of [model] apply to the conversion. */
TRIREME_C_API trireme_status trireme_model_open(const char* path, const char* const* overrides,
                                                size_t count, trireme_model** model);
TRIREME_C_API void trireme_model_close(trireme_model* model);
TRIREME_C_API void trireme_model_info_of(const trireme_model* model, trireme_model_info* info);
TRIREME_C_API trireme_status trireme_model_config(const trireme_model* model,
                                                  trireme_config** config);
/* The tokenizer of the run; TRIREME_BAD_INPUT if its configuration names none. */
struct trireme_tokenizer;
TRIREME_C_API trireme_status trireme_model_tokenizer(const trireme_model* model,
                                                     struct trireme_tokenizer** tokenizer);
/* Logits of one sequence: `ids` [count], `token_types` [count] for BERT or null, `logits`
 * [count, vocab_size] in the caller's memory. */
TRIREME_C_API trireme_status trireme_model_logits(trireme_model* model, const int32_t* ids,
                                                  int64_t count, const int32_t* token_types,
                                                  float* logits);
/* Log-likelihoods of `count` sequences; sequence i is ids[offsets[i] .. offsets[i + 1]), whose
 * first given[i] tokens (at least 1) are the context. sums[i]: sum of the natural log-probabilities
 * of the other tokens; greedy[i]: 1 if each is the most likely one. `progress`, which may be null,
 * is called after each sequence; a result other than 0 ends the call with TRIREME_INTERRUPTED. */
TRIREME_C_API trireme_status
trireme_model_log_likelihoods(trireme_model* model, const int32_t* ids, const int64_t* offsets,
                              const int64_t* given, int64_t count, double* sums, uint8_t* greedy,
                              int32_t (*progress)(void* user, int64_t done), void* user);

typedef struct trireme_generate_options {
  size_t size; /* sizeof(trireme_generate_options) */
  int64_t max_new_tokens;
  int32_t sample; /* 0: greedy decoding */
  float temperature;
  int64_t top_k;            /* 0: off */
  float top_p;              /* 1: off */
  float repetition_penalty; /* 1: off */
  uint64_t seed;
  const int32_t* stop_ids; /* [stop_count]: end a sequence and remain in it */
  size_t stop_count;
  int32_t stop_at_end; /* stop at the tokens that end a document of this model, too */
  /* Called for every new token; a result other than 0 ends the call with TRIREME_INTERRUPTED. May
   * be null. */
  int32_t (*on_token)(void* user, int64_t sequence, int32_t id);
  void* user;
} trireme_generate_options;

/* Fills in the defaults of `trireme generate`. */
TRIREME_C_API void trireme_generate_defaults(trireme_generate_options* options);
/* Continues `count` prompts, none empty; prompt i is ids[offsets[i] .. offsets[i + 1]). The outputs
 * include the prompts: `out_ids` is allocated, `out_offsets` [count + 1] is the caller's. */
TRIREME_C_API trireme_status trireme_model_generate(trireme_model* model, const int32_t* ids,
                                                    const int64_t* offsets, int64_t count,
                                                    const trireme_generate_options* options,
                                                    int32_t** out_ids, int64_t* out_offsets);

/* --- tokenizers --- */

typedef struct trireme_tokenizer trireme_tokenizer;

typedef struct trireme_tokenizer_info {
  int32_t vocab_size;                              /* the largest id + 1 */
  int32_t eod, bos, eos, pad, unk, cls, sep, mask; /* -1: the tokenizer has none */
  uint64_t fingerprint;                            /* equal if the ids are the same */
} trireme_tokenizer_info;

/* Opens a tokenizer by type, as in data.tokenizer, and files; files it does not need are null. */
TRIREME_C_API trireme_status trireme_tokenizer_open(const char* type, const char* vocab_file,
                                                    const char* merge_file, const char* model_file,
                                                    trireme_tokenizer** tokenizer);
/* Opens the tokenizer of a run, a checkpoint or another program's folder; a tokenizer.json; or a
 * folder with tokenizer.json, or with vocab.json and merges.txt. */
TRIREME_C_API trireme_status trireme_tokenizer_find(const char* path,
                                                    trireme_tokenizer** tokenizer);
TRIREME_C_API void trireme_tokenizer_close(trireme_tokenizer* tokenizer);
TRIREME_C_API void trireme_tokenizer_info_of(const trireme_tokenizer* tokenizer,
                                             trireme_tokenizer_info* info);

typedef enum trireme_encode_kind {
  TRIREME_ENCODE_PLAIN = 0,    /* only the text */
  TRIREME_ENCODE_DOCUMENT = 1, /* as `trireme preprocess`, without the token that ends a document */
  TRIREME_ENCODE_PROMPT = 2,   /* the tokens that open a document, then the text */
  TRIREME_ENCODE_SPECIAL = 3,  /* the text with its special tokens: [CLS] ... [SEP] */
} trireme_encode_kind;

/* Encodes `count` texts on all threads of the pool; text i is bytes[offsets[i] .. offsets[i + 1]).
 * `ids` is allocated; `id_offsets` [count + 1] is the caller's. */
TRIREME_C_API trireme_status trireme_tokenizer_encode(const trireme_tokenizer* tokenizer,
                                                      const char* bytes, const int64_t* offsets,
                                                      int64_t count, trireme_encode_kind kind,
                                                      int32_t** ids, int64_t* id_offsets);
/* Decodes `count` lists of ids; incomplete characters give invalid UTF-8. `bytes` is allocated. */
TRIREME_C_API trireme_status trireme_tokenizer_decode(const trireme_tokenizer* tokenizer,
                                                      const int32_t* ids, const int64_t* id_offsets,
                                                      int64_t count, int32_t skip_special,
                                                      char** bytes, int64_t* offsets);

/* --- data --- */

typedef struct trireme_tokens trireme_tokens;

typedef struct trireme_tokens_info {
  int64_t sequences, documents, tokens;
  const char* dtype; /* "u16", "i32" ... */
  int32_t item_bytes;
} trireme_tokens_info;

/* Maps a pair of files PREFIX.bin and PREFIX.idx. If another program truncates a file meanwhile,
 * reading its tokens ends the process with a bus error. */
TRIREME_C_API trireme_status trireme_tokens_open(const char* prefix, trireme_tokens** tokens);
TRIREME_C_API void trireme_tokens_close(trireme_tokens* tokens);
TRIREME_C_API void trireme_tokens_info_of(const trireme_tokens* tokens, trireme_tokens_info* info);
/* The tokens of sequence `index` in the mapped file, in its type; valid until the handle closes. */
TRIREME_C_API trireme_status trireme_tokens_sequence(const trireme_tokens* tokens, int64_t index,
                                                     const void** data, int64_t* count);
/* The first sequence of a document, from 0 up to and including the number of documents. */
TRIREME_C_API trireme_status trireme_tokens_document(const trireme_tokens* tokens, int64_t document,
                                                     int64_t* sequence);

/* The samples of a run, in training order, from token files or text. */
typedef struct trireme_samples trireme_samples;

typedef struct trireme_samples_info {
  int64_t size, seq_length;
  int64_t steps; /* number of steps of the run */
} trireme_samples_info;

/* `split`: "train", "valid" or "test". `ranks` of the run; 0: the fewest that [parallel] allows. */
TRIREME_C_API trireme_status trireme_samples_open(const trireme_config* config, const char* split,
                                                  int64_t ranks, trireme_samples** samples);
TRIREME_C_API void trireme_samples_close(trireme_samples* samples);
TRIREME_C_API void trireme_samples_info_of(const trireme_samples* samples,
                                           trireme_samples_info* info);
/* The samples of the global batch of step `step` (from 1): [first, first + count). */
TRIREME_C_API trireme_status trireme_samples_of_step(const trireme_samples* samples, int64_t step,
                                                     int64_t* first, int64_t* count);
/* Reads samples [first, first + count) into the caller's arrays, each [count, seq_length]; null:
 * not needed. */
TRIREME_C_API trireme_status trireme_samples_read(const trireme_samples* samples, int64_t first,
                                                  int64_t count, int32_t* tokens, int32_t* targets,
                                                  float* loss_weights, int32_t* positions,
                                                  int32_t* first_visible);

/* --- checkpoints --- */

typedef struct trireme_checkpoint trireme_checkpoint;

/* The maximum number of dimensions of a tensor. */
#define TRIREME_MAX_RANK 4
typedef struct trireme_tensor {
  const char* name;  /* "layers.3.mlp.up.weight", for files of any program */
  const char* dtype; /* stored type: "f32", "bf16", "f16", "f64", "i64", "i32" */
  int32_t rank;
  int64_t shape[TRIREME_MAX_RANK];
  int64_t bytes; /* stored size */
} trireme_tensor;

/* Opens a run, a checkpoint, or a folder of another program in any format that `trireme convert`
 * reads. Only tables are read; trireme_checkpoint_read() reads a tensor. */
TRIREME_C_API trireme_status trireme_checkpoint_open(const char* path,
                                                     trireme_checkpoint** checkpoint);
TRIREME_C_API void trireme_checkpoint_close(trireme_checkpoint* checkpoint);
TRIREME_C_API int64_t trireme_checkpoint_count(const trireme_checkpoint* checkpoint);
TRIREME_C_API trireme_status trireme_checkpoint_tensor(const trireme_checkpoint* checkpoint,
                                                       int64_t index, trireme_tensor* tensor);
/* {"format": "trireme", "folder": ..., "step": ..., "config": TOML or null, "note": ...} */
TRIREME_C_API trireme_status trireme_checkpoint_json(const trireme_checkpoint* checkpoint,
                                                     char** text);
/* Reads all elements of a tensor into `memory` of exactly `bytes` bytes, and verifies checksums if
 * the format has them. `as_f32`: converts to 32-bit floats; otherwise in the stored type. */
TRIREME_C_API trireme_status trireme_checkpoint_read(trireme_checkpoint* checkpoint, int64_t index,
                                                     int32_t as_f32, void* memory, int64_t bytes);

/* --- plans: JSON as printed by `trireme plan --json`; see docs/time.md and docs/search.md --- */

/* `ranks`: 0: the fewest that [parallel] allows. `machine`: a name, a file, or null. `memory`: per
 * rank, "64GiB", or null. A plan that does not fit is not an error: "verdict" says so. */
TRIREME_C_API trireme_status trireme_plan(const trireme_config* config, int64_t ranks,
                                          const char* machine, const char* memory, char** json);
TRIREME_C_API trireme_status trireme_search(const trireme_config* config, int64_t ranks,
                                            const char* machine, const char* memory, char** json);

#ifdef __cplusplus
}
#endif

#endif
