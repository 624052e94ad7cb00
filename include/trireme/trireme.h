/* The C interface of Trireme: what other languages bind to. `python/trireme` is made of it.
 *
 * Version. TRIREME_C_VERSION counts incompatible changes of this file; a program compares it with
 * trireme_c_version() of the library that it has loaded. Functions and structs may be added without
 * a new version; a struct that is passed in begins with its size, so it can grow.
 *
 * Errors. Functions that can fail return a trireme_status: TRIREME_OK, or the exit code that the
 * program would end with. trireme_last_error() then gives the sentence, of the last call of this
 * thread that failed. An output is written only where the call succeeds.
 *
 * Ownership. A handle belongs to the caller and is given back to its trireme_..._close(), which
 * takes null too. Memory that a function allocates for the caller (`char**`, `int32_t**`) is freed
 * with trireme_free(). Pointers to const that a function returns live as long as the handle. What
 * the caller passes in is copied or read during the call, unless it says otherwise.
 *
 * Texts are UTF-8 and end with a null byte; those with a length beside them may hold null bytes.
 * Arrays are row-major and without gaps; their shapes are in brackets.
 *
 * Threads. Different handles may be used from different threads, with two exceptions: a job and the
 * trainers on it belong to one thread at a time, and only one call at a time computes (training,
 * evaluation, logits, generation), since all use one pool of threads. Tokenizers and token files
 * may be used from several threads at once. Nothing is done between calls but what a trainer
 * prepares: it reads samples ahead and writes checkpoints. A process that has called anything here
 * must not be continued in a child of fork().
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
  TRIREME_FAILED = 1,    /* something went wrong while it ran: a full disk, a NaN, a lost process */
  TRIREME_BAD_INPUT = 2, /* a file, a key or an argument is wrong */
  TRIREME_INTERRUPTED = 3, /* a signal or a callback asked for an end */
} trireme_status;

TRIREME_C_API int32_t trireme_c_version(void);
TRIREME_C_API const char* trireme_version(void); /* of the program: "0.2.0" */
/* The sentence of the last failure in this thread, until its next one; "" before the first. */
TRIREME_C_API const char* trireme_last_error(void);
TRIREME_C_API void trireme_free(void* memory);

/* --- configuration: the keys of docs/configuration.md ---
 * Reading one from several threads at once is safe. Refused: unknown keys, wrong types, values out
 * of range. What contradicts itself is refused where a trainer is made or a plan. */

typedef struct trireme_config trireme_config;

/* From TOML; `name` stands for the file in messages (null: "the configuration"). `overrides` are
 * `count` texts "section.key=value", applied in order. */
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

/* --- a job: this process, or all that mpirun or srun started together ---
 * Made before anything else that starts threads. Of one process it can be made as often as one
 * likes; of several, once. */

typedef struct trireme_job trireme_job;

/* For run.device and train.timeout_s of the configuration; null: "cpu" and ten minutes. */
TRIREME_C_API trireme_status trireme_job_open(const trireme_config* config, trireme_job** job);
TRIREME_C_API int32_t trireme_job_rank(const trireme_job* job);
TRIREME_C_API int32_t trireme_job_size(const trireme_job* job);
TRIREME_C_API int32_t trireme_job_local_rank(const trireme_job* job); /* on this machine */
/* Sums `values` [count] over all processes in the order of ranks, in place: the same bits on each.
 */
TRIREME_C_API trireme_status trireme_job_sum(trireme_job* job, double* values, size_t count);
/* One value of each process, by rank: `all` [size of the job]. */
TRIREME_C_API trireme_status trireme_job_gather(trireme_job* job, double value, double* all);
TRIREME_C_API trireme_status trireme_job_barrier(trireme_job* job);
/* The orderly end of several processes: waits until all of them have called it. Alone: nothing. */
TRIREME_C_API trireme_status trireme_job_leave(trireme_job* job);
/* The other end of several processes: one of them prints the message, all end with the code, and
 * this does not return. Alone: nothing. For errors of the caller's own, which the others would wait
 * for; errors that a trainer returns in a job of several processes need it too. */
TRIREME_C_API void trireme_job_abort(trireme_job* job, int32_t code, const char* message);
TRIREME_C_API void trireme_job_close(trireme_job* job);

/* --- training --- */

/* One sample to be filled in: `length` elements each, in memory of the trainer's. */
typedef struct trireme_sample {
  int64_t length;         /* model.seq_length */
  int32_t* tokens;        /* inputs; 0 at first */
  int32_t* targets;       /* the token that each position predicts; 0 at first */
  float* loss_weights;    /* 1: counts, as at first; 0: does not */
  int32_t* positions;     /* 0, 1, 2 ... at first; others need data.reset_position_ids */
  int32_t* first_visible; /* 0 at first; others need data.reset_attention_mask */
} trireme_sample;

/* A fixed, ordered list of samples that a program makes. A step takes the next
 * train.global_batch_size of them on any number of processes. */
typedef struct trireme_samples_of_program {
  int64_t size;
  const char* identity; /* what tells the list from another; may be null */
  /* Writes sample `index`; anything but 0 ends the step with an error. Called from other threads
   * than the trainer's, several at once, ahead of training. */
  int32_t (*fill)(void* user, int64_t index, const trireme_sample* sample);
  void* user; /* lives as long as the trainer */
} trireme_samples_of_program;

typedef struct trireme_trainer_options {
  size_t size;                                  /* sizeof(trireme_trainer_options) */
  const trireme_samples_of_program* train_data; /* null: [data] says */
  const trireme_samples_of_program* valid_data; /* with train_data */
  /* Takes what is printed, line by line, in the first process; null: standard output. */
  void (*log)(void* user, const char* line);
  /* The rate of a step, from what [optimizer] says; a pure function. Null: as it says. */
  double (*learning_rate)(void* user, int64_t step, int64_t steps, int64_t samples, int64_t tokens,
                          double configured);
  void* user;
  /* While the trainer lives, SIGINT, SIGTERM, SIGHUP and SIGUSR1 do not end the process but make
   * trireme_trainer_should_stop() true. */
  int32_t note_signals;
} trireme_trainer_options;

typedef struct trireme_step {
  int64_t step; /* its number, from 1 */
  double loss;  /* mean over the predicted tokens of the global batch */
  double grad_norm, learning_rate;
  int32_t finite; /* 0: fp16 gradients overflowed, and the weights stayed as they were */
} trireme_step;

typedef struct trireme_progress {
  int64_t step, steps; /* done, and of the whole run */
  int64_t samples, tokens;
  int64_t planned_bytes; /* of memory on this process */
} trireme_progress;

typedef enum trireme_end {
  TRIREME_END_DONE = 0,        /* all steps */
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

/* Checks everything, plans and allocates the memory, opens the data, and resumes from the newest
 * checkpoint of run.dir. The job outlives the trainer; `options` may be null. All processes of a
 * job make the same calls in the same order. After an error of trireme_trainer_step() the trainer
 * can only be closed; what it saved is untouched. */
TRIREME_C_API trireme_status trireme_trainer_open(trireme_job* job, const trireme_config* config,
                                                  const trireme_trainer_options* options,
                                                  trireme_trainer** trainer);
TRIREME_C_API trireme_status trireme_trainer_step(trireme_trainer* trainer, trireme_step* result);
TRIREME_C_API trireme_status trireme_trainer_evaluate(trireme_trainer* trainer, double* loss);
TRIREME_C_API trireme_status trireme_trainer_save(trireme_trainer* trainer);
TRIREME_C_API trireme_status trireme_trainer_should_stop(trireme_trainer* trainer, int32_t* stop);
/* Adds `count` values to metrics.jsonl and TensorBoard at the step last done. */
TRIREME_C_API trireme_status trireme_trainer_log(trireme_trainer* trainer, const char* const* names,
                                                 const double* values, size_t count);
TRIREME_C_API void trireme_trainer_progress(const trireme_trainer* trainer,
                                            trireme_progress* progress);
/* With what followed from the tokenizer. */
TRIREME_C_API trireme_status trireme_trainer_config(const trireme_trainer* trainer,
                                                    trireme_config** config);
/* Waits for what is still written, and says in run.dir how the run ended. */
TRIREME_C_API trireme_status trireme_trainer_finish(trireme_trainer* trainer,
                                                    trireme_summary* summary);
/* All of it, as `trireme train`: steps, evaluations, checkpoints. During the call the signals above
 * end it after the step, saved. */
TRIREME_C_API trireme_status trireme_trainer_run(trireme_trainer* trainer,
                                                 trireme_summary* summary);
/* Without finish() or run() before, the run counts as failed in its status.json. */
TRIREME_C_API void trireme_trainer_close(trireme_trainer* trainer);

/* --- trained models ---
 * Weights are in memory once: for logits and likelihoods, or for generation, which needs other
 * memory; they are read again where the use changes. */

typedef struct trireme_model trireme_model;

typedef struct trireme_model_info {
  int64_t vocab_size, seq_length;
  int64_t max_length; /* tokens that a sequence may have; 0: any number */
  int64_t step;       /* that the checkpoint was saved at */
  int32_t next_token; /* 0: it fills in masked tokens, as BERT */
} trireme_model_info;

/* `path`: the folder of a run, of checkpoints, of one checkpoint, or of another program in any
 * format that `trireme convert` reads; the latter is converted into a temporary folder, which
 * trireme_model_close() removes. `overrides` as in trireme_config_parse(), e.g.
 * "run.precision=fp32"; of another program's folder those of [model] count for the conversion. */
TRIREME_C_API trireme_status trireme_model_open(const char* path, const char* const* overrides,
                                                size_t count, trireme_model** model);
TRIREME_C_API void trireme_model_close(trireme_model* model);
TRIREME_C_API void trireme_model_info_of(const trireme_model* model, trireme_model_info* info);
TRIREME_C_API trireme_status trireme_model_config(const trireme_model* model,
                                                  trireme_config** config);
/* That of the run; refused where it names none. */
struct trireme_tokenizer;
TRIREME_C_API trireme_status trireme_model_tokenizer(const trireme_model* model,
                                                     struct trireme_tokenizer** tokenizer);
/* Logits of one sequence: `ids` [count], `token_types` [count] of BERT or null, `logits`
 * [count, vocab_size] in the caller's memory. */
TRIREME_C_API trireme_status trireme_model_logits(trireme_model* model, const int32_t* ids,
                                                  int64_t count, const int32_t* token_types,
                                                  float* logits);
/* For each of `count` sequences, sequence i being ids[offsets[i] .. offsets[i + 1]): the sum of the
 * natural logarithms of the probabilities of its tokens from the given[i]-th on (at least 1), each
 * given all before it, and whether each of them is the likeliest. `progress`, which may be null, is
 * called after each sequence; anything but 0 ends the call with TRIREME_INTERRUPTED. */
TRIREME_C_API trireme_status
trireme_model_log_likelihoods(trireme_model* model, const int32_t* ids, const int64_t* offsets,
                              const int64_t* given, int64_t count, double* sums, uint8_t* greedy,
                              int32_t (*progress)(void* user, int64_t done), void* user);

typedef struct trireme_generate_options {
  size_t size; /* sizeof(trireme_generate_options) */
  int64_t max_new_tokens;
  int32_t sample; /* 0: the likeliest token, always */
  float temperature;
  int64_t top_k;            /* 0: off */
  float top_p;              /* 1: off */
  float repetition_penalty; /* 1: off */
  uint64_t seed;
  const int32_t* stop_ids; /* [stop_count]: end a sequence, and stay in it */
  size_t stop_count;
  int32_t stop_at_end; /* also at the tokens that end a document of this model */
  /* Called for every new token as it is drawn; anything but 0 ends the call with
   * TRIREME_INTERRUPTED. May be null. */
  int32_t (*on_token)(void* user, int64_t sequence, int32_t id);
  void* user;
} trireme_generate_options;

/* Fills in the defaults of `trireme generate`. */
TRIREME_C_API void trireme_generate_defaults(trireme_generate_options* options);
/* Continues `count` prompts, prompt i being ids[offsets[i] .. offsets[i + 1]), none empty. The
 * outputs hold the prompts: `out_ids` is allocated, `out_offsets` [count + 1] is the caller's. */
TRIREME_C_API trireme_status trireme_model_generate(trireme_model* model, const int32_t* ids,
                                                    const int64_t* offsets, int64_t count,
                                                    const trireme_generate_options* options,
                                                    int32_t** out_ids, int64_t* out_offsets);

/* --- tokenizers --- */

typedef struct trireme_tokenizer trireme_tokenizer;

typedef struct trireme_tokenizer_info {
  int32_t vocab_size;                              /* one more than the largest id */
  int32_t eod, bos, eos, pad, unk, cls, sep, mask; /* -1 where there is none */
  uint64_t fingerprint;                            /* equal where ids are the same */
} trireme_tokenizer_info;

/* By its type, as in data.tokenizer, and its files; those that the type does not need are null. */
TRIREME_C_API trireme_status trireme_tokenizer_open(const char* type, const char* vocab_file,
                                                    const char* merge_file, const char* model_file,
                                                    trireme_tokenizer** tokenizer);
/* That of a run, of a checkpoint or of another program's folder; a tokenizer.json; or a folder with
 * tokenizer.json or with vocab.json and merges.txt. */
TRIREME_C_API trireme_status trireme_tokenizer_find(const char* path,
                                                    trireme_tokenizer** tokenizer);
TRIREME_C_API void trireme_tokenizer_close(trireme_tokenizer* tokenizer);
TRIREME_C_API void trireme_tokenizer_info_of(const trireme_tokenizer* tokenizer,
                                             trireme_tokenizer_info* info);

typedef enum trireme_encode_kind {
  TRIREME_ENCODE_PLAIN = 0,    /* the text alone */
  TRIREME_ENCODE_DOCUMENT = 1, /* as `trireme preprocess`, without the token that ends a document */
  TRIREME_ENCODE_PROMPT = 2,   /* what opens a document, then the text */
  TRIREME_ENCODE_SPECIAL = 3,  /* with the special tokens around it: [CLS] ... [SEP] */
} trireme_encode_kind;

/* `count` texts, text i being bytes[offsets[i] .. offsets[i + 1]), on all threads of the pool.
 * `ids` is allocated; `id_offsets` [count + 1] is the caller's. */
TRIREME_C_API trireme_status trireme_tokenizer_encode(const trireme_tokenizer* tokenizer,
                                                      const char* bytes, const int64_t* offsets,
                                                      int64_t count, trireme_encode_kind kind,
                                                      int32_t** ids, int64_t* id_offsets);
/* The reverse; texts may be ill-formed UTF-8 where ids cut a character. */
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

/* A pair of files PREFIX.bin and PREFIX.idx, mapped: a file that another program cuts off meanwhile
 * ends the process with a bus error where its tokens are read. */
TRIREME_C_API trireme_status trireme_tokens_open(const char* prefix, trireme_tokens** tokens);
TRIREME_C_API void trireme_tokens_close(trireme_tokens* tokens);
TRIREME_C_API void trireme_tokens_info_of(const trireme_tokens* tokens, trireme_tokens_info* info);
/* The tokens of sequence `index` as they lie in the file, until the handle is closed. */
TRIREME_C_API trireme_status trireme_tokens_sequence(const trireme_tokens* tokens, int64_t index,
                                                     const void** data, int64_t* count);
/* The first sequence of a document, for 0 to the number of documents. */
TRIREME_C_API trireme_status trireme_tokens_document(const trireme_tokens* tokens, int64_t document,
                                                     int64_t* sequence);

/* The samples of a run in its order, from token files or from text. */
typedef struct trireme_samples trireme_samples;

typedef struct trireme_samples_info {
  int64_t size, seq_length;
  int64_t steps; /* of the run */
} trireme_samples_info;

/* `split`: "train", "valid" or "test". `ranks`: of the run; 0: the fewest that [parallel] takes. */
TRIREME_C_API trireme_status trireme_samples_open(const trireme_config* config, const char* split,
                                                  int64_t ranks, trireme_samples** samples);
TRIREME_C_API void trireme_samples_close(trireme_samples* samples);
TRIREME_C_API void trireme_samples_info_of(const trireme_samples* samples,
                                           trireme_samples_info* info);
/* Which samples step `step` (from 1) learns from: [first, first + count). */
TRIREME_C_API trireme_status trireme_samples_of_step(const trireme_samples* samples, int64_t step,
                                                     int64_t* first, int64_t* count);
/* Samples [first, first + count) into the caller's arrays, each [count, seq_length]; null: not
 * asked for. */
TRIREME_C_API trireme_status trireme_samples_read(const trireme_samples* samples, int64_t first,
                                                  int64_t count, int32_t* tokens, int32_t* targets,
                                                  float* loss_weights, int32_t* positions,
                                                  int32_t* first_visible);

/* --- checkpoints --- */

typedef struct trireme_checkpoint trireme_checkpoint;

/* Dimensions of a tensor are at most TRIREME_MAX_RANK. */
#define TRIREME_MAX_RANK 4
typedef struct trireme_tensor {
  const char* name;  /* "layers.3.mlp.up.weight", whatever program wrote the files */
  const char* dtype; /* as stored: "f32", "bf16", "f16", "f64", "i64", "i32" */
  int32_t rank;
  int64_t shape[TRIREME_MAX_RANK];
  int64_t bytes; /* as stored */
} trireme_tensor;

/* A run, a checkpoint, or a folder of another program in any format that `trireme convert` reads.
 * Only tables are read; tensors are when they are asked for. */
TRIREME_C_API trireme_status trireme_checkpoint_open(const char* path,
                                                     trireme_checkpoint** checkpoint);
TRIREME_C_API void trireme_checkpoint_close(trireme_checkpoint* checkpoint);
TRIREME_C_API int64_t trireme_checkpoint_count(const trireme_checkpoint* checkpoint);
TRIREME_C_API trireme_status trireme_checkpoint_tensor(const trireme_checkpoint* checkpoint,
                                                       int64_t index, trireme_tensor* tensor);
/* {"format": "trireme", "folder": ..., "step": ..., "config": TOML or null, "note": ...} */
TRIREME_C_API trireme_status trireme_checkpoint_json(const trireme_checkpoint* checkpoint,
                                                     char** text);
/* All elements of a tensor into the caller's memory of `bytes` bytes, checked against their
 * checksums where the format has any. `as_f32`: converted to 32-bit floats; else as stored. */
TRIREME_C_API trireme_status trireme_checkpoint_read(trireme_checkpoint* checkpoint, int64_t index,
                                                     int32_t as_f32, void* memory, int64_t bytes);

/* --- plans: JSON as `trireme plan --json` prints it, of docs/time.md and docs/search.md --- */

/* `ranks`: 0: the fewest that [parallel] takes. `machine`: a name or a file, or null. `memory`: of
 * a rank, "64GiB", or null. What does not fit is no error: "verdict" says so. */
TRIREME_C_API trireme_status trireme_plan(const trireme_config* config, int64_t ranks,
                                          const char* machine, const char* memory, char** json);
TRIREME_C_API trireme_status trireme_search(const trireme_config* config, int64_t ranks,
                                            const char* machine, const char* memory, char** json);

#ifdef __cplusplus
}
#endif

#endif
