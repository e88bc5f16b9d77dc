/* veery.h: veery from C and from whatever calls C. docs/c-api.md explains it call by call.
 *
 * - A call that can fail returns a veery_status; veery_last_message() then says what was wrong. No
 *   C++ exception leaves a call.
 * - Structures begin with their size, which the caller sets to sizeof; the veery_..._init()
 * functions do that and fill in the defaults. Null in place of options: the defaults.
 * - Handles are freed in any order: what still needs a model keeps it. A handle must not be used
 *   while or after it is freed. What a call gives in a char**, int32_t** or float** belongs to the
 *   caller, who gives it to veery_free().
 * - Texts are UTF-8 with a length in bytes; VEERY_NUL: up to the first zero byte. Malformed bytes
 * of a text are allowed, of JSON refused. Texts that are given are followed by a zero byte.
 * - Calls are safe on several threads at once, on one handle too, unless they say otherwise.
 * - A model belongs to the process that loaded it: after fork(), calls with it return
 *   VEERY_ERROR_UNSUPPORTED in the child, and free calls do nothing.
 * - While a file is mapped the library handles SIGBUS for its pages, and passes other faults to the
 *   handler that was there before. A call whose model's file changed returns VEERY_ERROR_IO. */
#ifndef VEERY_VEERY_H
#define VEERY_VEERY_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define VEERY_API __attribute__((visibility("default")))
#else
#define VEERY_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define VEERY_NUL ((size_t)-1)

typedef enum veery_status {
  VEERY_OK = 0,
  VEERY_ERROR_INPUT = 1,       /* an argument is wrong */
  VEERY_ERROR_FORMAT = 2,      /* a file, or JSON, does not hold what its format promises */
  VEERY_ERROR_UNSUPPORTED = 3, /* understood, but not implemented for this case or this model */
  VEERY_ERROR_LIMIT = 4,       /* more than context, memory or queue hold */
  VEERY_ERROR_NOT_FOUND = 5,   /* a file or a name does not exist */
  VEERY_ERROR_IO = 6,          /* the system refused to read or write */
  VEERY_ERROR_BUG = 7,         /* veery itself is wrong */
  VEERY_ERROR_MEMORY = 8,      /* the system gave no memory */
  VEERY_ERROR_BUSY = 9,        /* not while an answer of this handle is in the making */
  VEERY_END = 10,              /* no error: the answer is over */
  VEERY_TIMEOUT = 11           /* no error: nothing came in that time */
} veery_status;

typedef struct veery_model veery_model;
typedef struct veery_session veery_session;
typedef struct veery_answer veery_answer;
typedef struct veery_transcript veery_transcript;
typedef struct veery_profile veery_profile;
typedef struct veery_inspection veery_inspection;

/* "0.1.0" */
VEERY_API const char* veery_version(void);
/* "input" for VEERY_ERROR_INPUT; "unknown" for what is none. */
VEERY_API const char* veery_status_name(veery_status status);
/* What was wrong with the last call of this thread that failed; "" before the first. Valid until
 * the next call of this thread that fails. */
VEERY_API const char* veery_last_message(void);
/* Frees a text or an array that a call gave; null is nothing. */
VEERY_API void veery_free(void* memory);

/* ---- models ---- */

typedef enum veery_kind {
  VEERY_KIND_AUTO = 0, /* what the file is made for */
  VEERY_KIND_TEXT = 1,
  VEERY_KIND_EMBED = 2, /* any decoder can be loaded as this too */
  VEERY_KIND_RERANK = 3,
  VEERY_KIND_SPEECH = 4
} veery_kind;

typedef struct veery_load_options {
  size_t size;
  int32_t kind;         /* veery_kind */
  int32_t threads;      /* 0: the cores this process may use */
  int32_t context;      /* positions of one sequence; 0: the model's, at most 4096 */
  int32_t chunk;        /* most tokens of one run of a prompt; 0: 256 on a CPU, 2048 on a GPU */
  int32_t exact;        /* not 0: f32 activations and caches */
  int32_t slots;        /* answers in the making at a time; others wait */
  int32_t queue;        /* requests that may wait */
  int32_t kept;         /* sequences kept for prompts that begin alike, at most */
  uint64_t cache_bytes; /* memory of all caches of a text model together, at most */
  const char* device;   /* "cpu", "cuda", "cuda:1", "metal", "auto"; null: "cpu" */
  int32_t gpu_layers;   /* the last layers that are on the device, with the head; -1: all, 0: none */
  int32_t relaxed;      /* not 0: prompts on an NVIDIA GPU by cuBLASLt, with other bits than the CPU's */
  uint64_t device_bytes; /* the device's memory for weights, caches and plans, at most; 0: all */
} veery_load_options;

typedef struct veery_model_info {
  size_t size;
  int32_t kind; /* veery_kind; never VEERY_KIND_AUTO */
  int32_t vocab;
  int32_t context; /* positions of one sequence */
  int32_t has_template;
  int32_t columns; /* of an embedding; 0: it makes none */
  int64_t parameters;
  uint64_t weight_bytes; /* of the file's tensors */
  double load_seconds;
} veery_model_info;

/* Bytes of the memory of a model's device. On a CPU, whose memory is the system's, all are 0. */
typedef struct veery_device_memory {
  size_t size;
  uint64_t active;    /* in use by weights, caches and plans */
  uint64_t peak;      /* the most that `active` was since loading, or since it was asked to begin anew */
  uint64_t cached;    /* released and kept for what comes next */
  uint64_t available; /* what can be had beside `active`: what is kept, and free within the limit */
} veery_device_memory;

VEERY_API veery_status veery_load_options_init(veery_load_options* options, size_t size);
/* A GGUF file or a folder of Hugging Face or MLX; where nothing is at `path`, the model that has it
 * as its name, as on the command line. `options` may be null. */
VEERY_API veery_status veery_model_load(const char* path, const veery_load_options* options,
                                        veery_model** model);
VEERY_API void veery_model_free(veery_model* model);
/* `info->size` is read, the rest written. */
VEERY_API veery_status veery_model_get_info(const veery_model* model, veery_model_info* info);

/* `memory->size` is read, the rest written. */
VEERY_API veery_status veery_model_get_device_memory(const veery_model* model,
                                                     veery_device_memory* memory);
/* From now on: the most bytes in use and kept together, and the most that are kept once they are
 * released (0 unless set). UINT64_MAX: no limit. What is in use stays; where more is wanted than
 * `bytes` allows, the call that wants it fails with VEERY_ERROR_LIMIT. VEERY_ERROR_UNSUPPORTED on a
 * CPU, whose caches `cache_bytes` bounds. */
VEERY_API veery_status veery_model_limit_device_memory(veery_model* model, uint64_t bytes,
                                                       uint64_t cached);
/* Gives what is kept back to the device, and lets `peak` begin anew. */
VEERY_API veery_status veery_model_clear_device_cache(veery_model* model);

/* ---- texts ---- */

/* `special`: BOS and EOS as the model wants them are added, and special tokens written in the text
 * become their ids. */
VEERY_API veery_status veery_tokenize(const veery_model* model, const char* text, size_t length,
                                      int32_t special, int32_t** ids, size_t* count);
/* `special`: special tokens are written out. `length` may be null. */
VEERY_API veery_status veery_detokenize(const veery_model* model, const int32_t* ids, size_t count,
                                        int32_t special, char** text, size_t* length);
/* The prompt of a conversation: `messages` is JSON, [{"role": "user", "content": "Hello"}];
 * `variables` a JSON object of more variables of the template, or null. Two of them are read here
 * too: "tools", a list of functions as OpenAI has it, and "parse_special". If that is true, special
 * tokens written in messages and tools ("<|im_end|>") act as tokens; if it is false or absent, they
 * are text, so that what a user types cannot end a turn. */
VEERY_API veery_status veery_apply_template(const veery_model* model, const char* messages,
                                            const char* variables, char** text, size_t* length);

/* ---- answers ---- */

typedef struct veery_bias {
  int32_t id;
  float value; /* added to the logit */
} veery_bias;

typedef struct veery_generate_options {
  size_t size;
  int64_t max_tokens; /* less than 0: as many as the context holds */
  uint64_t seed;      /* the same seed gives the same text, whatever else runs */
  float temperature;  /* 0: always the most probable token */
  float top_p, min_p, typical_p, top_n_sigma;
  float repeat_penalty, frequency_penalty, presence_penalty;
  float dynatemp_range, dynatemp_exponent;
  float xtc_probability, xtc_threshold;
  float dry_multiplier, dry_base;
  float mirostat_tau, mirostat_eta;
  int32_t top_k, repeat_last_n, dry_allowed_length, dry_last_n;
  int32_t mirostat;         /* 0 or 2 */
  int32_t ignore_eos;       /* not 0: tokens that end an answer do not */
  int32_t logprobs;         /* so many most probable tokens beside each one; -1: no scores */
  int32_t priority;         /* higher ones are begun first */
  const char* const* stops; /* the text ends before the first of these */
  size_t stop_count;
  const veery_bias* bias;
  size_t bias_count;
  /* What the answer is held to: at most one of the three. Behind reasoning, in a chat. */
  const char* json_schema;
  const char* regex;
  const char* grammar; /* GBNF; its first rule is "root" */
  /* Of veery_start_chat() alone: a JSON object of variables of the template, or null. */
  const char* variables;
} veery_generate_options;

typedef struct veery_token {
  int32_t id;
  float logprob; /* natural, of the model's own logits */
} veery_token;

/* What came since the last piece. Valid until the next call with the same answer. */
typedef struct veery_piece {
  const char* text;
  size_t length;
} veery_piece;

typedef enum veery_finish {
  VEERY_FINISH_NONE = 0, /* it is not over */
  VEERY_FINISH_STOP = 1,
  VEERY_FINISH_LENGTH = 2,
  VEERY_FINISH_CANCELLED = 3
} veery_finish;

typedef struct veery_usage {
  size_t size;
  int32_t finish;         /* veery_finish */
  uint64_t prompt_tokens; /* all of the prompt */
  uint64_t reused_tokens; /* of them, found in caches */
  uint64_t made_tokens;
  double prompt_seconds, decode_seconds;
} veery_usage;

/* Returns not 0 to end the answer. It must not throw, nor free the answer. */
typedef int32_t (*veery_on_piece)(void* user, const veery_piece* piece);

/* The defaults that the makers of the model recommend; `model` may be null. */
VEERY_API veery_status veery_generate_options_init(veery_generate_options* options, size_t size,
                                                   const veery_model* model);
/* Begins an answer and returns at once. */
VEERY_API veery_status veery_start(veery_model* model, const int32_t* ids, size_t count,
                                   const veery_generate_options* options, veery_answer** answer);
/* The answer to a conversation (veery_apply_template). A last message of the assistant is the
 * beginning of its answer, which goes on. */
VEERY_API veery_status veery_start_chat(veery_model* model, const char* messages,
                                        const veery_generate_options* options,
                                        veery_answer** answer);
/* Waits for more text, at most so many seconds (less than 0: as long as it takes). VEERY_OK with a
 * piece, VEERY_TIMEOUT, VEERY_END, or the error that ended it. One thread reads. */
VEERY_API veery_status veery_answer_next(veery_answer* answer, double seconds, veery_piece* piece);
/* Reads all that comes; `on_piece` may be null. One thread reads. */
VEERY_API veery_status veery_answer_wait(veery_answer* answer, veery_on_piece on_piece, void* user);
/* Ends it with the next token, from any thread. */
VEERY_API void veery_answer_cancel(veery_answer* answer);
/* Cancels what is not over. */
VEERY_API void veery_answer_free(veery_answer* answer);
/* veery_start() and veery_answer_wait() of a text, which is encoded as a prompt. The answer is
 * given in `answer`, which is null after an error. */
VEERY_API veery_status veery_generate(veery_model* model, const char* prompt, size_t length,
                                      const veery_generate_options* options,
                                      veery_on_piece on_piece, void* user, veery_answer** answer);
/* Of what was read so far; pointers are valid until the next call that reads. "" and null, 0 for a
 * null answer. `length` and `count` may be null. */
VEERY_API const char* veery_answer_text(const veery_answer* answer, size_t* length);
/* After its end: all that were made, one that ended the answer included. */
VEERY_API const int32_t* veery_answer_ids(const veery_answer* answer, size_t* count);
/* `usage->size` is read, the rest written; counts are 0 before the end. */
VEERY_API veery_status veery_answer_get_usage(const veery_answer* answer, veery_usage* usage);
/* With options.logprobs >= 0: of token `index` of those read, and the most probable in its place,
 * `top_count` of them. `top` and `top_count` may be null. */
VEERY_API veery_status veery_answer_logprob(const veery_answer* answer, size_t index,
                                            veery_token* token, const veery_token** top,
                                            size_t* top_count);
/* The message of the assistant as JSON, taken apart into content, reasoning_content and tool_calls;
 * of veery_start_chat() alone. */
VEERY_API veery_status veery_answer_message(const veery_answer* answer, char** json,
                                            size_t* length);

/* How probable each label is behind the prompt: `logprobs[i]` is the natural logarithm of the
 * probability of all tokens of labels[i], `probabilities[i]` (may be null) its share among the
 * labels. Both have `count` entries, of the caller. */
VEERY_API veery_status veery_classify(veery_model* model, const char* prompt, size_t length,
                                      const char* const* labels, size_t count, float* logprobs,
                                      float* probabilities);

/* ---- sessions: a text that grows, and branches ---- */

VEERY_API veery_status veery_session_create(veery_model* model, veery_session** session);
VEERY_API void veery_session_free(veery_session* session);
/* A session that begins with all tokens of another. */
VEERY_API veery_status veery_session_fork(const veery_session* session, veery_session** fork);
/* A text behind the others; at the front it is encoded as a prompt, with its BOS. */
VEERY_API veery_status veery_session_append(veery_session* session, const char* text,
                                            size_t length);
VEERY_API veery_status veery_session_append_ids(veery_session* session, const int32_t* ids,
                                                size_t count);
/* Forgets everything after the first `count` tokens. */
VEERY_API veery_status veery_session_cut(veery_session* session, size_t count);
VEERY_API veery_status veery_session_ids(const veery_session* session, int32_t** ids,
                                         size_t* count);
/* Writes its tokens to a file, with what the caches hold of them; what had the name is replaced
 * once the file is whole. */
VEERY_API veery_status veery_session_save(const veery_session* session, const char* path);
/* A session of such a file, which the same model with caches of the same types has saved: what it
 * holds is not computed again. */
VEERY_API veery_status veery_session_load(veery_model* model, const char* path,
                                          veery_session** session);
/* Begins to continue it. The answer's tokens become its own where the answer is read to its end;
 * VEERY_ERROR_BUSY for all that changes the session until the answer is over or freed. */
VEERY_API veery_status veery_session_continue(veery_session* session,
                                              const veery_generate_options* options,
                                              veery_answer** answer);
/* Chain decode: the next `count` most probable tokens, whatever they are, into `ids` and the
 * session; `made`: how many, fewer where the context ends. No logits are written meanwhile; a GPU
 * makes up to 128 of them in one submission. */
VEERY_API veery_status veery_session_chain(veery_session* session, int32_t* ids, size_t count,
                                           size_t* made);

/* ---- other models ---- */

/* Embeddings of `count` texts, zero-terminated: (count, columns), row by row. */
VEERY_API veery_status veery_embed(veery_model* model, const char* const* texts, size_t count,
                                   float** values, size_t* columns);
/* How well each document answers the query: `scores` has `count` entries, of the caller. */
VEERY_API veery_status veery_rerank(veery_model* model, const char* query,
                                    const char* const* documents, size_t count, float* scores);

typedef struct veery_transcribe_options {
  size_t size;
  const char* language; /* "en" or "english"; null: the one that is most probable */
  const char* prompt;   /* what was said before; or null */
  int32_t translate;    /* not 0: into English */
  int32_t times;        /* 0: a window is one segment */
  int32_t beams;
  uint64_t seed;
  int32_t words; /* not 0: when each word was said */
  int32_t vad;   /* not 0: listens only where somebody speaks */
} veery_transcribe_options;

typedef struct veery_segment {
  double start, end; /* seconds */
  const char* text;
} veery_segment;

typedef struct veery_word {
  double start, end; /* seconds */
  double probability;
  const char* text; /* with the space before it, if there is one */
  size_t segment;   /* that it is of, from 0 */
} veery_word;

VEERY_API veery_status veery_transcribe_options_init(veery_transcribe_options* options,
                                                     size_t size);
/* A sound file (WAV, FLAC, Ogg, MP3 ...). `options` may be null. */
VEERY_API veery_status veery_transcribe(veery_model* model, const char* path,
                                        const veery_transcribe_options* options,
                                        veery_transcript** transcript);
VEERY_API void veery_transcript_free(veery_transcript* transcript);
/* Valid as long as the transcript; "" for null. */
VEERY_API const char* veery_transcript_text(const veery_transcript* transcript);
VEERY_API const char* veery_transcript_language(const veery_transcript* transcript);
VEERY_API size_t veery_transcript_count(const veery_transcript* transcript);
VEERY_API veery_status veery_transcript_segment(const veery_transcript* transcript, size_t index,
                                                veery_segment* segment);
/* Of all segments together; 0 where they were not asked for. */
VEERY_API size_t veery_transcript_word_count(const veery_transcript* transcript);
VEERY_API veery_status veery_transcript_word(const veery_transcript* transcript, size_t index,
                                             veery_word* word);

/* ---- where the time goes ---- */

/* One row of the table that a step runs through. Texts are valid as long as the profile. */
typedef struct veery_profile_row {
  const char* op;
  const char* kernel;
  const char* detail; /* name of a weight or a node */
  double seconds;     /* median over the runs */
  double bytes;       /* read and written, by the shapes */
  double flops;
} veery_profile_row;

/* Runs a step of `rows` tokens `repetitions` times. Of text models on the CPU; VEERY_ERROR_BUSY
 * while answers are in the making. Sequences kept by the model are forgotten. */
VEERY_API veery_status veery_profile_step(veery_model* model, int32_t rows, int32_t repetitions,
                                          veery_profile** profile);
VEERY_API void veery_profile_free(veery_profile* profile);
VEERY_API size_t veery_profile_count(const veery_profile* profile);
VEERY_API veery_status veery_profile_get_row(const veery_profile* profile, size_t index,
                                             veery_profile_row* row);

/* ---- what goes on in a model ---- */

/* Parts of a layer that can be asked for; their sum is veery_inspect_options.what. */
typedef enum veery_inspect_part {
  VEERY_INSPECT_ATTENTION = 1, /* [heads][queries][keys], probabilities */
  VEERY_INSPECT_QUERIES = 2,   /* [heads][positions][size of a head], behind RoPE */
  VEERY_INSPECT_KEYS = 4,      /* [key heads][positions][size of a head], behind RoPE */
  VEERY_INSPECT_HIDDEN = 8,    /* [positions][width], behind the layer */
  VEERY_INSPECT_LENS = 16      /* veery_inspection_lens() */
} veery_inspect_part;

typedef struct veery_inspect_options {
  size_t size;
  int32_t what;          /* sum of veery_inspect_part */
  int32_t top;           /* tokens of the lens at each position */
  const int32_t* layers; /* from 0, ascending */
  size_t layer_count;    /* 0: all */
  const int32_t* heads;  /* of queries, from 0, ascending */
  size_t head_count;     /* 0: all */
  uint64_t most_bytes;   /* that values and results may take together */
} veery_inspect_options;

/* Of a layer of an inspection; valid as long as that. */
typedef struct veery_inspected_layer {
  int32_t layer;
  int32_t attends;   /* 0: the layer has neither keys nor queries nor maps */
  const char* mixer; /* "attention", "Mamba-2", "attention and Mamba-2" ... */
  int32_t window;    /* positions that it sees; 0: all */
  int32_t chunked;   /* what is since the last multiple of the window */
  int32_t sinks;     /* not 0: what rows of maps lack of 1 went to sinks */
  float scale;       /* of the product of query and key */
  const int32_t* heads;
  size_t head_count;
  const int32_t* key_heads; /* those that the heads use */
  size_t key_head_count;
} veery_inspected_layer;

/* Row-major; sizes[2] is 1 where there are two dimensions. Null and zeros: it is not there. */
typedef struct veery_values {
  const float* data;
  size_t sizes[3];
} veery_values;

/* The lens of all layers. */
VEERY_API veery_status veery_inspect_options_init(veery_inspect_options* options, size_t size);
/* Runs the tokens once, between two steps of answers in the making, and keeps what was asked for.
 * Of text models on the CPU. `options` may be null. */
VEERY_API veery_status veery_inspect(veery_model* model, const int32_t* ids, size_t count,
                                     const veery_inspect_options* options,
                                     veery_inspection** inspection);
VEERY_API void veery_inspection_free(veery_inspection* inspection);
/* Layers that were asked for; 0 for null. */
VEERY_API size_t veery_inspection_count(const veery_inspection* inspection);
VEERY_API veery_status veery_inspection_get_layer(const veery_inspection* inspection, size_t index,
                                                  veery_inspected_layer* layer);
/* One part of the layer at `index`: one of veery_inspect_part, but not the lens. */
VEERY_API veery_status veery_inspection_get_values(const veery_inspection* inspection, size_t index,
                                                   int32_t part, veery_values* values);
/* With VEERY_INSPECT_HIDDEN: what the first layer was given and what the last norm gave,
 * [positions][width]. Either may be null. */
VEERY_API veery_status veery_inspection_get_ends(const veery_inspection* inspection,
                                                 veery_values* embedding, veery_values* final);
/* What the layer at `index` would say behind a position, the most probable first. */
VEERY_API veery_status veery_inspection_lens(const veery_inspection* inspection, size_t index,
                                             size_t position, const veery_token** top,
                                             size_t* top_count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif
