/* veery.h: the C API of veery. docs/c-api.md describes each call.
 *
 * - Errors: a call that can fail returns a veery_status; veery_last_message() returns the message.
 *   After an error, outputs are null or 0. No C++ exception leaves a call.
 * - Structures that begin with `size`: set it to sizeof, or call veery_..._init(), which also fills
 *   in the defaults. A smaller size, of an older header, is accepted: members that it lacks have
 *   their defaults. A larger size is accepted if the members that this library does not know are 0.
 *   A null pointer to options stands for the defaults.
 * - Ownership: handles may be freed in any order; sessions and answers keep their model. Do not use
 *   a handle during or after its free call. The caller owns what a call returns through a char**,
 *   int32_t** or float**, and passes it to veery_free(). Free calls accept null.
 * - Texts are UTF-8 with a length in bytes; VEERY_NUL: up to the first zero byte. Invalid UTF-8 is
 *   accepted in texts and refused in JSON. Returned texts end with a zero byte.
 * - Thread safety: calls may run on several threads at once, also on one handle, unless their
 *   comment says otherwise.
 * - fork(): a model belongs to the process that loaded it. In a child process, calls with it return
 *   VEERY_ERROR_UNSUPPORTED, and free calls do nothing.
 * - Signals: while a file is mapped, the library handles SIGBUS for its pages and passes other
 *   faults to the previous handler. If the model's file has changed, calls return VEERY_ERROR_IO.
 */
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
  VEERY_ERROR_INPUT = 1,       /* an argument is invalid */
  VEERY_ERROR_FORMAT = 2,      /* a file or JSON is malformed */
  VEERY_ERROR_UNSUPPORTED = 3, /* not supported for this case or this model */
  VEERY_ERROR_LIMIT = 4,       /* the context, the memory or the queue is too small */
  VEERY_ERROR_NOT_FOUND = 5,   /* a file or a name does not exist */
  VEERY_ERROR_IO = 6,          /* a read or write failed, or a mapped file changed */
  VEERY_ERROR_BUG = 7,         /* an internal error */
  VEERY_ERROR_MEMORY = 8,      /* out of memory */
  VEERY_ERROR_BUSY = 9,        /* an answer of this handle is unfinished */
  VEERY_END = 10,              /* not an error: the answer is over */
  VEERY_TIMEOUT = 11           /* not an error: no text within the time limit */
} veery_status;

typedef struct veery_model veery_model;
typedef struct veery_session veery_session;
typedef struct veery_answer veery_answer;
typedef struct veery_transcript veery_transcript;
typedef struct veery_profile veery_profile;
typedef struct veery_inspection veery_inspection;

/* Returns the version of the library: "0.1.0". */
VEERY_API const char* veery_version(void);
/* Returns "input" for VEERY_ERROR_INPUT, and so on; "unknown" for other values. */
VEERY_API const char* veery_status_name(veery_status status);
/* Returns the message of this thread's last failed call; "" if none has failed. Valid until the
 * next failed call of this thread. */
VEERY_API const char* veery_last_message(void);
/* Frees a text or an array that a call returned. */
VEERY_API void veery_free(void* memory);

/* ---- models ---- */

typedef enum veery_kind {
  VEERY_KIND_AUTO = 0, /* as the file says */
  VEERY_KIND_TEXT = 1,
  VEERY_KIND_EMBED = 2, /* also possible for any decoder */
  VEERY_KIND_RERANK = 3,
  VEERY_KIND_SPEECH = 4
} veery_kind;

typedef struct veery_load_options {
  size_t size;
  int32_t kind;         /* veery_kind */
  int32_t threads;      /* 0: the cores that this process may use. Models with the same number share
                           these threads, memory for activations, and devices of the same name */
  int32_t context;      /* positions of one sequence; 0: the model's, at most 4096 */
  int32_t chunk;        /* tokens of a prefill chunk; 0: 256 on a CPU, 2048 on a GPU */
  int32_t exact;        /* not 0: f32 activations and KV cache */
  int32_t slots;        /* answers that are generated at the same time */
  int32_t queue;        /* requests that may wait for a slot */
  int32_t kept;         /* cached prefixes with room for sliding windows and recurrent states;
                           0: no prefix cache */
  uint64_t cache_bytes; /* limit of all KV caches of a text model, in bytes; 0: 4 GiB, or more if
                           one sequence of the context needs more */
  const char* device;   /* "cpu", "cuda", "cuda:1", "metal", "auto", or NVIDIA GPUs that share the
                           layers in this order: "cuda:0,cuda:1"; null: "cpu" */
  int32_t gpu_layers;   /* last layers on the device or on all listed GPUs together, with the output
                           head; -1: all, 0: none */
  int32_t relaxed; /* not 0: prefill by cuBLASLt on NVIDIA GPUs; results differ from the CPU's */
  uint64_t device_bytes; /* limit of weights, KV caches and plans of all models that share each
                            device, in bytes, replacing an earlier limit; 0: no other limit */
} veery_load_options;

typedef struct veery_model_info {
  size_t size;
  int32_t kind; /* veery_kind; never VEERY_KIND_AUTO */
  int32_t vocab;
  int32_t context; /* positions of one sequence */
  int32_t has_template;
  int32_t columns; /* of an embedding; 0: the model does not embed */
  int64_t parameters;
  uint64_t weight_bytes; /* of the tensors in the file */
  double load_seconds;
} veery_model_info;

/* Memory of a model's devices together, in bytes, with that of other models that share them; all 0
 * on a CPU. */
typedef struct veery_device_memory {
  size_t size;
  uint64_t active;    /* in use by weights, KV cache and plans */
  uint64_t peak;      /* maximum of `active` since the first model was loaded or
                         veery_model_clear_device_cache() */
  uint64_t cached;    /* released by the model, kept for its next allocations */
  uint64_t available; /* can be allocated: `cached`, and free memory within the limit */
} veery_device_memory;

/* `size`: sizeof(veery_load_options) in the caller's header; the same for other init calls. */
VEERY_API veery_status veery_load_options_init(veery_load_options* options, size_t size);
/* Loads a GGUF file, or a model folder of Hugging Face or MLX. If `path` does not exist, it is
 * taken as the name of a model, as on the command line. `options` may be null. */
VEERY_API veery_status veery_model_load(const char* path, const veery_load_options* options,
                                        veery_model** model);
VEERY_API void veery_model_free(veery_model* model);
/* Set `info->size` before the call. */
VEERY_API veery_status veery_model_get_info(const veery_model* model, veery_model_info* info);
/* Set `memory->size` before the call. */
VEERY_API veery_status veery_model_get_device_memory(const veery_model* model,
                                                     veery_device_memory* memory);
/* Sets two limits of each device in bytes; UINT64_MAX: none. `bytes`: memory in use and cached
 * together; later calls that need more fail with VEERY_ERROR_LIMIT, and memory in use is not freed.
 * `cached`: released memory that is kept, 0 after loading. Returns VEERY_ERROR_UNSUPPORTED on a
 * CPU; see veery_load_options.cache_bytes. */
VEERY_API veery_status veery_model_limit_device_memory(veery_model* model, uint64_t bytes,
                                                       uint64_t cached);
/* Frees the cached memory, and resets `peak` to `active`. */
VEERY_API veery_status veery_model_clear_device_cache(veery_model* model);

/* ---- texts ---- */

/* Encodes a text. `special` not 0: adds BOS and EOS as the model expects them, and parses special
 * tokens that are written in the text. */
VEERY_API veery_status veery_tokenize(const veery_model* model, const char* text, size_t length,
                                      int32_t special, int32_t** ids, size_t* count);
/* Decodes ids. `special` not 0: the text includes special tokens. `length` may be null. */
VEERY_API veery_status veery_detokenize(const veery_model* model, const int32_t* ids, size_t count,
                                        int32_t special, char** text, size_t* length);
/* Renders the prompt of a conversation. `messages`: a JSON list, [{"role": "user", "content":
 * "Hello"}]. `variables`: a JSON object of template variables, or null. Two members of it have a
 * meaning of their own. "tools": functions in OpenAI's form. "parse_special": true parses special
 * tokens that are written in messages and tools ("<|im_end|>"); false, the default, encodes them as
 * text, so that user input cannot end a turn. */
VEERY_API veery_status veery_apply_template(const veery_model* model, const char* messages,
                                            const char* variables, char** text, size_t* length);

/* ---- answers ---- */

typedef struct veery_bias {
  int32_t id;
  float value; /* added to the logit */
} veery_bias;

/* A sampling parameter by its name: "min_p". Reaches parameters without a member of their own. */
typedef struct veery_parameter {
  const char* name;
  double value;
} veery_parameter;

/* docs/cli.md describes the sampling parameters and lists their ranges. */
typedef struct veery_generate_options {
  size_t size;
  int64_t max_tokens; /* less than 0: up to the end of the context */
  uint64_t seed;      /* equal seeds give equal texts, whatever else runs */
  float temperature;  /* 0: always the most probable token */
  float top_p, min_p, typical_p, top_n_sigma;
  float repeat_penalty, frequency_penalty, presence_penalty;
  float dynatemp_range, dynatemp_exponent;
  float xtc_probability, xtc_threshold;
  float dry_multiplier, dry_base;
  float mirostat_tau, mirostat_eta;
  int32_t top_k, repeat_last_n, dry_allowed_length, dry_last_n;
  int32_t mirostat;         /* 0 or 2 */
  int32_t ignore_eos;       /* not 0: end-of-sequence tokens do not end the answer */
  int32_t logprobs;         /* scores of each token and of the N most probable ones; -1: none */
  int32_t priority;         /* requests with a higher one start first */
  const char* const* stops; /* the answer ends before the first of these texts */
  size_t stop_count;
  const veery_bias* bias;
  size_t bias_count;
  /* Constrained decoding: at most one of the three. In a chat, reasoning is not constrained. */
  const char* json_schema;
  const char* regex;
  const char* grammar; /* GBNF with the first rule "root" */
  /* For veery_start_chat() only: a JSON object of template variables, or null. */
  const char* variables;
  const veery_parameter* parameters; /* set after the members above, in order */
  size_t parameter_count;
} veery_generate_options;

typedef struct veery_token {
  int32_t id;
  float logprob; /* natural logarithm, before penalties and temperature */
} veery_token;

/* The text since the last piece. Valid until the next call with the same answer. */
typedef struct veery_piece {
  const char* text;
  size_t length;
} veery_piece;

typedef enum veery_finish {
  VEERY_FINISH_NONE = 0, /* unfinished */
  VEERY_FINISH_STOP = 1,
  VEERY_FINISH_LENGTH = 2,
  VEERY_FINISH_CANCELLED = 3
} veery_finish;

typedef struct veery_usage {
  size_t size;
  int32_t finish; /* veery_finish */
  uint64_t prompt_tokens;
  uint64_t reused_tokens; /* prompt tokens that the prefix cache had */
  uint64_t made_tokens;   /* generated */
  double prompt_seconds, decode_seconds;
} veery_usage;

/* Returns a value other than 0 to end the answer. Must not throw, and must not free the answer. */
typedef int32_t (*veery_on_piece)(void* user, const veery_piece* piece);

/* Fills in the sampling parameters that the file of `model` recommends; `model` may be null. */
VEERY_API veery_status veery_generate_options_init(veery_generate_options* options, size_t size,
                                                   const veery_model* model);
/* Starts an answer to token ids, and returns without waiting for it. */
VEERY_API veery_status veery_start(veery_model* model, const int32_t* ids, size_t count,
                                   const veery_generate_options* options, veery_answer** answer);
/* Starts the answer to a conversation; see veery_apply_template(). If the last message is the
 * assistant's, the answer continues it. */
VEERY_API veery_status veery_start_chat(veery_model* model, const char* messages,
                                        const veery_generate_options* options,
                                        veery_answer** answer);
/* Waits up to `seconds` for more text; less than 0: no time limit. Returns VEERY_OK with a piece,
 * VEERY_TIMEOUT, VEERY_END, or the error that ended the answer. Only one thread may read an
 * answer. */
VEERY_API veery_status veery_answer_next(veery_answer* answer, double seconds, veery_piece* piece);
/* Reads to the end; `on_piece` may be null. Only one thread may read an answer. */
VEERY_API veery_status veery_answer_wait(veery_answer* answer, veery_on_piece on_piece, void* user);
/* Ends the answer at its next token. */
VEERY_API void veery_answer_cancel(veery_answer* answer);
/* Frees the answer; cancels it if it is unfinished. */
VEERY_API void veery_answer_free(veery_answer* answer);
/* Encodes a prompt, starts an answer, and reads it to the end as veery_answer_wait() does. */
VEERY_API veery_status veery_generate(veery_model* model, const char* prompt, size_t length,
                                      const veery_generate_options* options,
                                      veery_on_piece on_piece, void* user, veery_answer** answer);
/* Returns the text read so far, "" for a null answer. Valid until the next call that reads.
 * `length` may be null. */
VEERY_API const char* veery_answer_text(const veery_answer* answer, size_t* length);
/* Returns all generated ids, with the one that ended the answer; null before the end and for a null
 * answer. Valid as long as the answer. `count` may be null. */
VEERY_API const int32_t* veery_answer_ids(const veery_answer* answer, size_t* count);
/* Set `usage->size` before the call. Only prompt_tokens is set before the end; the rest is 0. */
VEERY_API veery_status veery_answer_get_usage(const veery_answer* answer, veery_usage* usage);
/* Returns the score of token `index` of those read, and the `top_count` most probable tokens at its
 * position, most probable first. Requires options.logprobs >= 0. `top` is valid until the next call
 * that reads; `top` and `top_count` may be null. */
VEERY_API veery_status veery_answer_logprob(const veery_answer* answer, size_t index,
                                            veery_token* token, const veery_token** top,
                                            size_t* top_count);
/* Returns the assistant's message as JSON, with content, reasoning_content and tool_calls. Only for
 * answers of veery_start_chat(). */
VEERY_API veery_status veery_answer_message(const veery_answer* answer, char** json,
                                            size_t* length);

/* Scores labels as continuations of the prompt. `logprobs[i]`: the natural logarithm of the
 * probability of all tokens of labels[i]. `probabilities[i]`: its share among the labels; may be
 * null. The caller provides `count` entries for both. */
VEERY_API veery_status veery_classify(veery_model* model, const char* prompt, size_t length,
                                      const char* const* labels, size_t count, float* logprobs,
                                      float* probabilities);

/* ---- sessions: texts that grow and branch ---- */

/* Creates an empty session. */
VEERY_API veery_status veery_session_create(veery_model* model, veery_session** session);
VEERY_API void veery_session_free(veery_session* session);
/* Creates a session with a copy of the tokens; the KV cache is shared. */
VEERY_API veery_status veery_session_fork(const veery_session* session, veery_session** fork);
/* Appends a text. In an empty session it is encoded as a prompt, with its BOS. */
VEERY_API veery_status veery_session_append(veery_session* session, const char* text,
                                            size_t length);
/* Appends ids; VEERY_ERROR_INPUT if one is not in the vocabulary. */
VEERY_API veery_status veery_session_append_ids(veery_session* session, const int32_t* ids,
                                                size_t count);
/* Removes all but the first `count` tokens. */
VEERY_API veery_status veery_session_cut(veery_session* session, size_t count);
/* Returns a copy of all tokens. */
VEERY_API veery_status veery_session_ids(const veery_session* session, int32_t** ids,
                                         size_t* count);
/* Writes the tokens and their KV cache to a file. An existing file is replaced atomically. */
VEERY_API veery_status veery_session_save(const veery_session* session, const char* path);
/* Loads a saved session without recomputing its KV cache. The file must come from the same model
 * and the same KV cache types. */
VEERY_API veery_status veery_session_load(veery_model* model, const char* path,
                                          veery_session** session);
/* Starts an answer that continues the session. Its tokens are appended when it has been read to its
 * end. Until it is over or freed, calls that change the session return VEERY_ERROR_BUSY. */
VEERY_API veery_status veery_session_continue(veery_session* session,
                                              const veery_generate_options* options,
                                              veery_answer** answer);
/* Chained decode: appends the next `count` most probable tokens, and writes them to `ids`. Tokens
 * that end an answer do not stop it. `made`: the number of tokens, less than `count` at the end of
 * the context. A GPU decodes up to 128 tokens in one submission. */
VEERY_API veery_status veery_session_chain(veery_session* session, int32_t* ids, size_t count,
                                           size_t* made);

/* ---- other models ---- */

/* Embeds `count` zero-terminated texts. `values`: [count][columns], row-major. */
VEERY_API veery_status veery_embed(veery_model* model, const char* const* texts, size_t count,
                                   float** values, size_t* columns);
/* Scores how well each document answers the query. The caller provides `count` scores. */
VEERY_API veery_status veery_rerank(veery_model* model, const char* query,
                                    const char* const* documents, size_t count, float* scores);

typedef struct veery_transcribe_options {
  size_t size;
  const char* language; /* "en" or "english"; null: detected */
  const char* prompt;   /* text that precedes the sound; or null */
  int32_t translate;    /* not 0: translate into English */
  int32_t times;        /* 0: no timestamps, one segment per window */
  int32_t beams;        /* of the beam search at temperature 0 */
  uint64_t seed;
  int32_t words; /* not 0: with timestamps of words */
  int32_t vad;   /* not 0: transcribe only where voice activity is detected */
} veery_transcribe_options;

typedef struct veery_segment {
  double start, end; /* seconds */
  const char* text;
} veery_segment;

typedef struct veery_word {
  double start, end; /* seconds */
  double probability;
  const char* text; /* with its leading space, if there is one */
  size_t segment;   /* index of its segment */
} veery_word;

VEERY_API veery_status veery_transcribe_options_init(veery_transcribe_options* options,
                                                     size_t size);
/* Transcribes a sound file (WAV, FLAC, Ogg, MP3, ...). `options` may be null. */
VEERY_API veery_status veery_transcribe(veery_model* model, const char* path,
                                        const veery_transcribe_options* options,
                                        veery_transcript** transcript);
VEERY_API void veery_transcript_free(veery_transcript* transcript);
/* Texts are valid as long as the transcript; "" for a null transcript. */
VEERY_API const char* veery_transcript_text(const veery_transcript* transcript);
VEERY_API const char* veery_transcript_language(const veery_transcript* transcript);
VEERY_API size_t veery_transcript_count(const veery_transcript* transcript);
VEERY_API veery_status veery_transcript_segment(const veery_transcript* transcript, size_t index,
                                                veery_segment* segment);
/* Returns the number of words in all segments; 0 unless options.words was set. */
VEERY_API size_t veery_transcript_word_count(const veery_transcript* transcript);
VEERY_API veery_status veery_transcript_word(const veery_transcript* transcript, size_t index,
                                             veery_word* word);

/* ---- profiling ---- */

/* One kernel of a step. Texts are valid as long as the profile. */
typedef struct veery_profile_row {
  const char* op;
  const char* kernel;
  const char* detail; /* name of the weight or node */
  double seconds;     /* median over the runs */
  double bytes;       /* read and written, computed from the shapes */
  double flops;
} veery_profile_row;

/* Runs a step of `rows` tokens `repetitions` times. For text models on the CPU. Returns
 * VEERY_ERROR_BUSY while answers are unfinished. Clears the model's prefix cache. */
VEERY_API veery_status veery_profile_step(veery_model* model, int32_t rows, int32_t repetitions,
                                          veery_profile** profile);
VEERY_API void veery_profile_free(veery_profile* profile);
VEERY_API size_t veery_profile_count(const veery_profile* profile);
VEERY_API veery_status veery_profile_get_row(const veery_profile* profile, size_t index,
                                             veery_profile_row* row);

/* ---- inspection ---- */

/* Parts of a layer; veery_inspect_options.what is a sum of them. */
typedef enum veery_inspect_part {
  VEERY_INSPECT_ATTENTION = 1, /* [heads][queries][keys], probabilities */
  VEERY_INSPECT_QUERIES = 2,   /* [heads][positions][head size], after RoPE */
  VEERY_INSPECT_KEYS = 4,      /* [key heads][positions][head size], after RoPE */
  VEERY_INSPECT_HIDDEN = 8,    /* [positions][width], after the layer */
  VEERY_INSPECT_LENS = 16      /* veery_inspection_lens() */
} veery_inspect_part;

typedef struct veery_inspect_options {
  size_t size;
  int32_t what;          /* sum of veery_inspect_part */
  int32_t top;           /* logit lens: tokens at each position */
  const int32_t* layers; /* from 0, ascending */
  size_t layer_count;    /* 0: all */
  const int32_t* heads;  /* query heads, from 0, ascending */
  size_t head_count;     /* 0: all */
  uint64_t most_bytes;   /* limit of intermediate values and results together, in bytes */
} veery_inspect_options;

/* A layer of an inspection; pointers are valid as long as the inspection. */
typedef struct veery_inspected_layer {
  int32_t layer;
  int32_t attends;   /* 0: the layer has no queries, keys and attention maps */
  const char* mixer; /* "attention", "Mamba-2", "attention and Mamba-2" ... */
  int32_t window;    /* positions that it attends to; 0: all */
  int32_t chunked;   /* not 0: only positions since the last multiple of the window */
  int32_t sinks;     /* not 0: rows of maps sum to less than 1, the rest is that of sinks */
  float scale;       /* factor of the product of query and key */
  const int32_t* heads;
  size_t head_count;
  const int32_t* key_heads; /* key heads that `heads` use */
  size_t key_head_count;
} veery_inspected_layer;

/* A row-major array; sizes[2] is 1 if there are two dimensions. Null and zeros: absent. */
typedef struct veery_values {
  const float* data;
  size_t sizes[3];
} veery_values;

/* Defaults: the logit lens of all layers. */
VEERY_API veery_status veery_inspect_options_init(veery_inspect_options* options, size_t size);
/* Runs the tokens once and keeps the selected values; running answers wait meanwhile. For text
 * models on the CPU. `options` may be null. */
VEERY_API veery_status veery_inspect(veery_model* model, const int32_t* ids, size_t count,
                                     const veery_inspect_options* options,
                                     veery_inspection** inspection);
VEERY_API void veery_inspection_free(veery_inspection* inspection);
/* Returns the number of inspected layers; 0 for null. */
VEERY_API size_t veery_inspection_count(const veery_inspection* inspection);
VEERY_API veery_status veery_inspection_get_layer(const veery_inspection* inspection, size_t index,
                                                  veery_inspected_layer* layer);
/* Returns one part of the layer at `index`. `part`: a veery_inspect_part other than the lens. */
VEERY_API veery_status veery_inspection_get_values(const veery_inspection* inspection, size_t index,
                                                   int32_t part, veery_values* values);
/* Returns the input of the first layer and the output of the last norm, [positions][width].
 * Requires VEERY_INSPECT_HIDDEN. Either pointer may be null. */
VEERY_API veery_status veery_inspection_get_ends(const veery_inspection* inspection,
                                                 veery_values* embedding, veery_values* final);
/* Logit lens: returns the tokens that the layer at `index` predicts after a position, most probable
 * first. */
VEERY_API veery_status veery_inspection_lens(const veery_inspection* inspection, size_t index,
                                             size_t position, const veery_token** top,
                                             size_t* top_count);

/* ---- rotary position embeddings (RoPE) of data in memory, forward and backward ---- */

/* The pairs of dimensions of a head, and the axis (t, h, w, e) whose position turns each pair. The
 * values are those of ggml. */
typedef enum veery_rope_mode {
  VEERY_ROPE_INTERLEAVED = 0, /* (2p, 2p + 1), turned by t (GPT-J) */
  VEERY_ROPE_NEOX = 2,        /* (p, p + distance), turned by t */
  VEERY_ROPE_MROPE = 8,   /* as NeoX; sections[0] pairs turned by t, then sections[1] by h, ... */
  VEERY_ROPE_VISION = 24, /* as MROPE; the frequencies start again in each section */
  VEERY_ROPE_IMROPE = 40  /* as NeoX; t, h and w alternate; pairs beyond the sections are turned by
                             t, or by e if sections[3] > 0 */
} veery_rope_mode;

/* The distance between the dimensions of a pair, except of interleaved ones. */
typedef enum veery_rope_pairing {
  VEERY_ROPE_PAIR_ROPE_DIM = 0, /* rope_dim / 2, as in transformers and ggml */
  VEERY_ROPE_PAIR_HEAD_DIM = 1  /* head_dim / 2 */
} veery_rope_pairing;

typedef enum veery_rope_layout {
  VEERY_ROPE_TOKENS_FIRST = 0, /* [batch * seq_len, n_heads, head_dim] */
  VEERY_ROPE_HEADS_FIRST = 1   /* [batch, n_heads, seq_len, head_dim] */
} veery_rope_layout;

typedef enum veery_rope_scaling {
  VEERY_ROPE_SCALING_NONE = 0,
  VEERY_ROPE_SCALING_LINEAR = 1, /* frequencies are divided by `factor` */
  VEERY_ROPE_SCALING_LLAMA3 = 2,
  VEERY_ROPE_SCALING_YARN = 3
} veery_rope_scaling;

typedef struct veery_rope_params {
  size_t size;
  uint32_t batch, n_heads, seq_len;
  uint32_t head_dim;       /* even */
  uint32_t rope_dim;       /* rotated dimensions of a head, even; the others stay as they are */
  int32_t mode;            /* veery_rope_mode */
  double theta_base;       /* pair p turns by theta_base^(-2p / rope_dim) radians per position */
  uint32_t sections[4];    /* pairs of t, h, w, e in MROPE, IMROPE and vision; they repeat if their
                              sum is less than rope_dim / 2 */
  int32_t pairing;         /* veery_rope_pairing */
  int32_t layout;          /* veery_rope_layout */
  int32_t dtype;           /* of input and output: VEERY_DTYPE_F32 or VEERY_DTYPE_BF16 */
  int32_t position_dtype;  /* VEERY_DTYPE_I32 or VEERY_DTYPE_U32: 4294967295 is position -1 */
  int32_t scaling;         /* veery_rope_scaling */
  int32_t untruncated;     /* YaRN; not 0: the bounds of the ramp are not rounded to whole pairs */
  double factor;           /* context over original context; for all scalings */
  double original_context; /* Llama 3, YaRN: positions */
  double beta_fast, beta_slow;              /* YaRN: turns within original_context */
  double low_freq_factor, high_freq_factor; /* Llama 3 */
  double attention_factor;        /* of cos and sin; 0: YaRN 0.1 ln(factor) + 1, otherwise 1 */
  const float* frequency_factors; /* divisors of the frequencies; or null */
  size_t frequency_factor_count;  /* rope_dim / 2; 0: none */
} veery_rope_params;

/* Defaults: sizes 0, NeoX, theta_base 10000, tokens first, f32, i32, no scaling (beta_fast 32,
 * beta_slow 1, low_freq_factor 1, high_freq_factor 4, factor 1, original_context 0). */
VEERY_API veery_status veery_rope_params_init(veery_rope_params* params, size_t size);
/* Rotates each head by the angles of its token. `input` and `output`: batch * n_heads * seq_len *
 * head_dim elements; they are the same memory, or do not overlap. `positions`: 4 * batch * seq_len,
 * blocks of t, h, w and e with batch * seq_len each, any value; modes with one axis read only t.
 * Counts are in elements. Returns VEERY_ERROR_INPUT with the name of the argument, what was found
 * and what was expected. */
VEERY_API veery_status veery_rope_forward(const void* input, size_t input_count,
                                          const void* positions, size_t position_count,
                                          void* output, size_t output_count,
                                          const veery_rope_params* params);
/* Returns the gradient of the input for the gradient of the output, at the positions of the forward
 * call: the rotation by the negative angles, times the same attention factor. The arguments have
 * the sizes and rules of veery_rope_forward(). */
VEERY_API veery_status veery_rope_backward(const void* grad_output, size_t grad_output_count,
                                           const void* positions, size_t position_count,
                                           void* grad_input, size_t grad_input_count,
                                           const veery_rope_params* params);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include "veery_tensor.h" /* arrays */

#endif
